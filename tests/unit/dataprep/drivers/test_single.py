# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A task on its own: what its exit code says about another try."""

import json
from pathlib import Path

import pytest

from seatrial.dataprep.drivers import single, work
from seatrial.dataprep.drivers.driver import Job, line_of
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
    with pytest.raises(StoreError, match="finished work is kept"):
        silent()
    assert issubclass(BusyStoreError, StoreError)
