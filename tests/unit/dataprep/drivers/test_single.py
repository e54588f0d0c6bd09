# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A task on its own: what its exit code says about another try."""

import json
from pathlib import Path

import pytest

from seatrial.dataprep.drivers import local, single, work
from seatrial.dataprep.drivers.driver import Job, line_of
from seatrial.dataprep.drivers.local import PodsDriver
from seatrial.dataprep.drivers.single import TRY_AGAIN, main
from seatrial.dataprep.drivers.work import Bench
from seatrial.dataprep.prepare import prepare
from seatrial.dataprep.tasks.records import record_file
from seatrial.dataprep.tasks.task_list import TaskList, thaw
from seatrial.errors import ExitCode
from seatrial.sdk.plan import plan
from seatrial.storage.retries import gave_up
from seatrial.storage.store import BusyStoreError, StoreError
from tests.unit.dataprep.little_corpus import InlineDriver, write_corpus


@pytest.fixture
def frozen(tmp_path: Path) -> Path:
    """The list of a preparation that was stopped before its first task."""
    spec = write_corpus(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        prepare(plan(spec), InlineDriver(stop_after=0))
    return next((tmp_path / "out/work").glob("*/tasks.jsonl"))


def silent(*_: object, **__: object) -> None:
    """A store that does not answer."""
    raise gave_up("s3://bucket/x", 6, 61.0, ConnectionError("status 503"))


def test_a_store_that_does_not_answer_is_worth_another_try(
    frozen: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as context:
        context.setattr(work, "run_task", silent)
        assert main(["--list", str(frozen), "--task", "0"]) == TRY_AGAIN
    assert "Rerun the same command later" in capsys.readouterr().err
    with monkeypatch.context() as context:
        context.setattr(single, "chosen_backend", silent)
        assert main(["--list", str(frozen), "--task", "0"]) == TRY_AGAIN
    assert main(["--list", str(frozen), "--task", "0"]) == ExitCode.OK


def test_a_store_that_refuses_is_not(frozen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise StoreError("s3://bucket/x: S3 refused with status 403.")

    monkeypatch.setattr(work, "run_task", refused)
    assert main(["--list", str(frozen), "--task", "0"]) == ExitCode.FINDINGS


@pytest.mark.parametrize("number", ["\N{SUPERSCRIPT TWO}", "3", "-1", ""])
def test_what_is_no_number_of_a_task_is_wrong_usage(
    frozen: Path, monkeypatch: pytest.MonkeyPatch, number: str
) -> None:
    monkeypatch.setenv("JOB_COMPLETION_INDEX", number)
    assert main(["--list", str(frozen)]) == ExitCode.USAGE


def tasks_and_bench(frozen: Path) -> tuple[TaskList, Bench]:
    tasks = thaw(frozen.read_bytes())
    return tasks, Bench(Job.of(tasks, str(frozen.parents[2]), "tokenizers"))


def test_an_error_is_told_even_when_the_store_cannot_be_tidied(
    frozen: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks, bench = tasks_and_bench(frozen)
    monkeypatch.setattr(work, "run_task", silent)
    monkeypatch.setattr(work, "files_of", silent)
    error = bench.attempt(line_of(tasks, tasks.tasks[0]))["error"]
    assert error["kind"] == "system"
    assert "all 6 attempts" in error["text"]


@pytest.mark.parametrize("half", [b"", b'{"attempt":', b"{}"])
def test_a_record_that_is_not_whole_is_written_again(frozen: Path, half: bytes) -> None:
    tasks, bench = tasks_and_bench(frozen)
    record = frozen.parents[2] / record_file(tasks.name, 0)
    record.parent.mkdir()
    record.write_bytes(half)
    answer = bench.attempt(line_of(tasks, tasks.tasks[0]))
    assert json.loads(answer["record"])["task"] == 0
    assert record.read_text() == answer["record"]


def test_a_silent_store_is_a_store_error_like_others() -> None:
    with pytest.raises(StoreError, match="keeps finished work"):
        silent()
    assert issubclass(BusyStoreError, StoreError)


def share_done(out: Path, index: str, workers: int, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("JOB_COMPLETION_INDEX", index)
    return main(["--at", str(out), "--workers", str(workers)])


def test_workers_share_the_tasks_and_the_last_step_puts_them_together(
    frozen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    tasks = thaw(frozen.read_bytes())
    records = frozen.parent / "records"
    assert share_done(out, "1", 2, monkeypatch) == ExitCode.OK
    done = sorted(int(path.stem) for path in records.iterdir())
    assert done == [task.number for task in tasks.tasks if task.number % 2 == 1]
    # A pod that is retried does not repeat its tasks.
    before = {path: path.stat().st_mtime_ns for path in records.iterdir()}
    assert share_done(out, "1", 2, monkeypatch) == ExitCode.OK
    assert {path: path.stat().st_mtime_ns for path in records.iterdir()} == before
    assert share_done(out, "0", 2, monkeypatch) == ExitCode.OK
    outcome = prepare(plan(tmp_path / "run.yaml"), PodsDriver(1))
    assert outcome.is_new
    assert not (out / "work").exists()
    # More workers than tasks, or a data set that is complete: there is no work left.
    assert share_done(out, "7", 8, monkeypatch) == ExitCode.OK


def test_a_worker_waits_for_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(single, "LIST_SECONDS", 0.0)
    monkeypatch.setattr(single, "LOOK_SECONDS", 0.01)
    assert share_done(tmp_path / "out", "0", 2, monkeypatch) == TRY_AGAIN
    assert "has no task list after 0 s" in capsys.readouterr().err


@pytest.mark.parametrize("index", ["", "2", "-1", "x"])
def test_a_worker_needs_its_number(
    frozen: Path, index: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert share_done(frozen.parents[2], index, 2, monkeypatch) == ExitCode.USAGE
    assert "must be a number from 0 to 1" in capsys.readouterr().err


def test_bad_input_of_a_share_is_not_tried_again(
    frozen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, *_) = sorted((tmp_path / "corpus/s0").iterdir())
    first.write_bytes(first.read_bytes()[:-5])
    assert share_done(tmp_path / "out", "0", 1, monkeypatch) == ExitCode.FINDINGS


def test_what_pods_do_not_do_is_done_here(
    frozen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(local, "LOOK_SECONDS", 0.02)
    assert share_done(tmp_path / "out", "0", 2, monkeypatch) == ExitCode.OK
    outcome = prepare(plan(tmp_path / "run.yaml"), PodsDriver(1))
    whole = tmp_path / "whole"
    prepare(plan(tmp_path / "run.yaml"), InlineDriver(), to=str(whole))
    for file in outcome.record.files:
        for path in (file.tokens_file, file.index_file):
            assert (tmp_path / "out" / path).read_bytes() == (whole / path).read_bytes()
