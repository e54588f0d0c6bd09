# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Runs on this host: real processes in the background, with a stand-in for torchrun."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import cast

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.checkpoints.by_engine import setup_of
from seatrial.errors import FindingsError, MissingExtraError, UsageError
from seatrial.monitoring.logs.reading import LONGEST_LINE
from seatrial.monitoring.processes import state
from seatrial.planning.plan import Plan
from seatrial.runs.history.logs import Asked, _raw_lines, lines_here
from seatrial.runs.launch.host import HostBackend
from seatrial.runs.launch.launcher import Launched, Wanted, launch
from seatrial.runs.ledger import host as host_ledger
from seatrial.runs.ledger.host import SUPERVISOR, LocalRun, local_run, local_runs
from seatrial.runs.ledger.ledger import AttemptOutcome, AttemptRecord, AttemptTakenError, End, utc
from seatrial.runs.status.status import status_here
from seatrial.runs.status.wait import wait
from seatrial.runs.stop import forget_here, stop_here
from seatrial.sdk.runs import find_run
from seatrial.secrets.redaction import HELD, REDACTED, redact
from tests.conftest import MEGATRON, resolved
from tests.unit.checkpoints.made import make_checkpoint

TORCHRUN = """\
#!/bin/sh
# Stands in for the worker's Python: prints, waits for a word, and ends as it is told.
trap 'echo "[default0]:saved"; exit 75' TERM
echo $$ > "$HOME_OF_TEST/process"
echo "$@" > "$HOME_OF_TEST/words"
echo "[default1]:step 1"
while [ ! -e "$HOME_OF_TEST/go" ]; do sleep 0.05; done
code=$(cat "$HOME_OF_TEST/go")
echo "[default0]:ends with $code"
exit "$code"
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    program = tmp_path / "python"
    program.write_text(TORCHRUN)
    program.chmod(0o755)
    monkeypatch.setenv(MEGATRON.installation.variable, str(program))
    monkeypatch.setenv("HOME_OF_TEST", str(tmp_path))
    yield tmp_path
    # Whatever a test that failed has left running.
    for run in local_runs(tmp_path).values():
        stop_here(run)


def on_host(home: Path, *overrides: str) -> Plan:
    return resolved(
        f"cluster={{profile: local, processes_per_node: 4, restarts: 1, "
        f"storage: {{mount: {home}/data}}}}",
        *overrides,
    )


def launched(home: Path, *overrides: str, agree: bool = False) -> Launched:
    wanted = Wanted(on_host(home, *overrides), Catalog())
    return launch(HostBackend(local_run(home, "slim-7b")), wanted, lambda _: agree)


def ends(home: Path, code: int) -> None:
    (home / "go").write_text(str(code))


def until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert happened()


def run_in(home: Path) -> LocalRun:
    return local_runs(home)["slim-7b"]


def test_a_run_is_launched_once_and_succeeds(home: Path) -> None:
    assert launched(home).is_new
    run = run_in(home)
    assert status_here(run).state == "running"
    assert not launched(home).is_new
    until(lambda: (home / "words").exists())
    words = (home / "words").read_text()
    assert "--nnodes=1 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=127.0.0.1:" in words
    assert "--module seatrial.worker.megatron.pod" in words
    ends(home, 0)
    assert wait(lambda: status_here(run), 60, sleep=lambda _: time.sleep(0.05)).succeeded
    assert not launched(home).is_new
    assert [line.rank for line in lines_here(run, Asked())] == [1, 0]
    assert [line.text for line in lines_here(run, Asked(rank=0))] == ["ends with 0"]


def test_a_run_that_keeps_failing_has_failed_after_its_restarts(home: Path) -> None:
    ends(home, 3)
    launched(home)
    run = run_in(home)
    until(lambda: status_here(run).is_over)
    (record,) = run.read().attempts
    assert record.outcome is AttemptOutcome.FAILED
    assert record.reason == "torchrun exited with 3"
    texts = [line.text for line in lines_here(run, Asked())]
    assert texts.count("ends with 3") == 2
    assert launched(home).attempt == 2
    until(lambda: status_here(run).is_over)


def test_stopping_lets_it_save_and_launching_goes_on(home: Path) -> None:
    launched(home)
    run = run_in(home)
    until(lambda: "step 1" in run.file(1, "log").read_text())
    assert stop_here(run)
    assert "saved" in run.file(1, "log").read_text()
    assert run.read().attempts[0].outcome is AttemptOutcome.STOPPED
    assert status_here(run).state == "stopped"
    assert not stop_here(run)
    assert launched(home).attempt == 2
    forget_here(run)
    assert not local_runs(home)


def test_a_changed_spec_is_refused_without_a_yes_and_replaces_with_one(home: Path) -> None:
    launched(home)
    run = run_in(home)
    with pytest.raises(FindingsError, match=r"training\.seed"):
        launched(home, "training.seed=7")
    assert status_here(run).state == "running"
    done = launched(home, "training.seed=7", agree=True)
    assert (done.is_new, done.attempt) == (True, 2)
    outcomes = [attempt.outcome for attempt in run.read().attempts]
    assert outcomes == [AttemptOutcome.STOPPED, None]
    forget_here(run)


def test_a_launch_while_another_starts_finds_its_attempt(home: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(launched, home)
        # Written down, and not yet supervised: the moment at which it looked like one that is gone.
        until(lambda: local_run(home, "slim-7b").file(1, "record").exists() or first.done())
        second = launched(home)
        assert first.result().is_new
    assert (second.is_new, second.attempt, second.why) == (False, 1, "it is running")
    run = run_in(home)
    assert [attempt.outcome for attempt in run.read().attempts] == [None]
    forget_here(run)


def test_a_number_that_somebody_else_took_makes_it_look_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = LocalRun.add

    def taken(run: LocalRun, record: AttemptRecord) -> None:
        monkeypatch.setattr(LocalRun, "add", add)
        other = replace(record, submission="other").finished(
            End("2026-11-15T04:00:00Z", AttemptOutcome.SUCCEEDED)
        )
        add(run, other)
        add(run, record)

    monkeypatch.setattr(LocalRun, "add", taken)
    done = launched(home)
    assert (done.is_new, done.attempt, done.why) == (False, 1, "it succeeded")


def test_a_launch_does_not_wait_for_ever_for_another(tmp_path: Path) -> None:
    run = local_run(tmp_path, "slim-7b")
    with run.held(), pytest.raises(UsageError, match="another launch of slim-7b"), run.held(0.1):
        pass
    with run.held(0.1):
        pass
    # Nothing was begun.
    assert not local_runs(tmp_path)


def test_who_waits_for_a_run_that_is_deleted_holds_the_new_one(tmp_path: Path) -> None:
    run = local_run(tmp_path, "slim-7b")
    with ThreadPoolExecutor(1) as pool:
        entered = threading.Event()

        def wait_for_it() -> bool:
            entered.set()
            with run.held():
                with pytest.raises(UsageError), run.held(0.05):
                    pass
                return (run.directory / "launch.lock").exists()

        with run.held():
            waiting = pool.submit(wait_for_it)
            entered.wait()
            time.sleep(0.1)
            shutil.rmtree(run.directory)
        assert waiting.result()


def test_one_who_looks_is_not_taken_for_the_supervisor(tmp_path: Path) -> None:
    run = local_run(tmp_path, "slim-7b")
    run.add(AttemptRecord(1, "a", "2026-11-15T03:12:00Z", "torchrun", "sha256:1"))
    run.file(1, "lock").write_text("1")
    with run.file(1, "lock").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        assert run.supervisor(1) == 0


def test_the_supervisor_starts_while_somebody_looks_at_its_lock(home: Path) -> None:
    run = local_run(home, "slim-7b")
    run.directory.mkdir(parents=True)
    with ThreadPoolExecutor(1) as pool, run.file(1, "lock").open("w") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        starting = pool.submit(launched, home)
        until(run.file(1, "task").exists)
        # Long enough for a supervisor that asks only once to have asked.
        time.sleep(2)
        fcntl.flock(looking, fcntl.LOCK_UN)
        assert starting.result().is_new
    assert status_here(run).state == "running"
    forget_here(run)


@pytest.mark.skipif(sys.platform != "linux", reason="the system is asked for it")
def test_a_supervisor_that_is_killed_takes_its_processes_with_it(home: Path) -> None:
    launched(home)
    run = run_in(home)
    until(lambda: (home / "words").exists())
    process = int((home / "process").read_text())
    assert state(process)
    os.kill(run.supervisor(1), signal.SIGKILL)
    until(lambda: not state(process))
    assert status_here(run).state == "gone"


def test_a_supervisor_that_was_killed_leaves_an_attempt_that_is_gone(home: Path) -> None:
    run = local_run(home, "slim-7b")
    run.add(AttemptRecord(1, "a", "2026-11-15T03:12:00Z", "torchrun", "sha256:1"))
    assert status_here(run).state == "gone"


def test_the_end_of_a_large_log_is_read_from_its_end(home: Path) -> None:
    run = local_run(home, "slim-7b")
    run.add(AttemptRecord(1, "a", "2026-11-15T03:12:00Z", "torchrun", "sha256:1"))
    with run.file(1, "log").open("wb") as log:
        # A hole: reading it all would take 500 MB of memory.
        log.seek(500 << 20)
        log.write(b"\nfirst\n[default1]:second\nunfinished")
    tracemalloc.start()
    shown = [line.text for line in lines_here(run, Asked(tail=2))]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert shown == ["second", "unfinished"]
    assert peak < 128 << 20


def test_an_attempt_whose_supervisor_is_about_to_start_is_starting(home: Path) -> None:
    run = local_run(home, "slim-7b")
    run.add(AttemptRecord(1, "a", utc(datetime.now(UTC)), "torchrun", "sha256:1"))
    found = status_here(run)
    assert (found.state, found.is_over, found.running) == ("starting", False, 0)
    # Its log is not there yet either.
    assert list(lines_here(run, Asked())) == []
    # The supervisor has its file, and not its lock.
    run.file(1, "lock").touch()
    assert status_here(run).state == "starting"
    run.file(1, "lock").write_text("123")
    assert status_here(run).state == "gone"


def test_an_attempt_and_its_end_are_written_once(tmp_path: Path) -> None:
    run = local_run(tmp_path, "slim-7b")
    record = AttemptRecord(1, "a", "2026-11-15T03:12:00Z", "torchrun", "sha256:1")
    run.add(record)
    with pytest.raises(AttemptTakenError):
        run.add(AttemptRecord(1, "b", "2026-11-15T03:12:00Z", "torchrun", "sha256:1"))
    run.end(1, End("2026-11-15T04:00:00Z", AttemptOutcome.FAILED, "first"))
    run.end(1, End("2026-11-15T05:00:00Z", AttemptOutcome.STOPPED, "second"))
    (found,) = run.read().attempts
    assert (found.submission, found.outcome, found.reason) == ("a", AttemptOutcome.FAILED, "first")
    assert not list(run.directory.glob(".*"))


def test_a_place_that_cannot_be_written_is_named(home: Path) -> None:
    (home / "data").write_text("a file")
    with pytest.raises(UsageError, match=r"cluster\.storage\.mount"):
        launched(home)
    assert not (home / ".seatrial").exists()


@pytest.mark.parametrize(
    ("override", "rule"),
    [
        ("cluster.nodes=2", r"cluster\.nodes: .* one node"),
        ('cluster.env={RANK: "5"}', r"cluster\.env\.RANK: .* set by the launcher"),
        ("cluster.identity=arn:aws:iam::1:role/a", "does not support cloud identities"),
    ],
)
def test_what_this_host_cannot_run_is_refused_before_anything_is_written(
    home: Path, override: str, rule: str
) -> None:
    with pytest.raises(FindingsError, match=rule):
        launched(home, override)
    assert not (home / ".seatrial").exists()
    assert not (home / "data").exists()


def test_an_engine_that_is_not_installed_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEATRIAL_ENGINES", str(home / "engines"))
    monkeypatch.delenv("SEATRIAL_LLM_FOUNDRY_PYTHON", raising=False)
    where = f"processes_per_node: 4, storage: {{mount: {home}/data}}"
    plan = resolved(f"cluster={{profile: local, {where}}}")
    engine = plan.spec.engine.model_copy(update={"name": "llm-foundry"})
    foreign = replace(plan, spec=plan.spec.model_copy(update={"engine": engine}))
    with pytest.raises(MissingExtraError, match="seatrial engines install llm-foundry"):
        launch(HostBackend(local_run(home, "slim-7b")), Wanted(foreign, Catalog()), lambda _: False)


def test_a_run_on_this_host_has_no_containers(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no containers"):
        next(lines_here(local_run(tmp_path, "slim-7b"), Asked(container="preflight")))


def test_a_record_of_a_newer_seatrial_can_be_read(tmp_path: Path) -> None:
    run = local_run(tmp_path, "slim-7b")
    record = AttemptRecord(1, "a", "2026-11-15T03:12:00Z", "torchrun", "sha256:1")
    run.add(record)
    text = json.loads(run.file(1, "record").read_text())
    run.file(1, "record").write_text(json.dumps(text | {"added_later": 1}))
    assert run.read().attempts == (record,)


def test_a_run_that_cannot_go_on_from_its_checkpoint_is_not_launched(home: Path) -> None:
    plan = on_host(home)
    make_checkpoint(Path(plan.checkpoint_location), 20, setup=setup_of(plan), size=500)
    with pytest.raises(FindingsError) as told:
        launched(home, "training.learning_rate={peak: 1.0e-3}", agree=True)
    (finding,) = told.value.findings
    assert finding.code == "ST-RUN-028"
    assert "its checkpoint at step 20: learning rate was" in finding.rule
    assert "reset_schedule" in finding.fix
    assert launched(home).is_new
    ends(home, 0)


@pytest.mark.parametrize("kinds", [("record", "task"), ("record", "task", "spec", "log", "lock")])
def test_a_run_is_found_and_stopped_whatever_is_left_of_its_files(
    home: Path, monkeypatch: pytest.MonkeyPatch, kinds: tuple[str, ...]
) -> None:
    monkeypatch.chdir(home)
    assert launched(home).is_new
    run = local_run(home, "slim-7b")
    until(lambda: bool(run.supervisors()))
    for kind in kinds:
        run.file(1, kind).unlink(missing_ok=True)
    found = find_run("slim-7b").here
    assert found is not None
    assert stop_here(found)
    assert run.supervisors(thorough=True) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="the system is asked for it")
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_run_is_stopped_after_its_directory_was_moved(home: Path, is_deleted: bool) -> None:
    project = home / "project"
    project.mkdir()
    assert launched(project).is_new
    process = local_run(project, "slim-7b").supervisor(1)
    moved = project.rename(home / "moved")
    run = run_in(moved)
    if is_deleted:
        run.file(1, "lock").unlink()
    # A run that was made where the first one was is another run.
    other = local_run(project, "slim-7b")
    other.add(AttemptRecord(1, "b", "2026-11-15T03:12:00Z", "torchrun", "sha256:1"))
    other.file(1, "lock").write_text(str(process))
    assert not stop_here(other)
    assert state(process)
    assert status_here(run).state == "running"
    assert stop_here(run)
    assert not state(process)
    if not is_deleted:
        assert status_here(run).state == "stopped"
    assert not other.file(1, "end").exists() or is_deleted


@pytest.mark.parametrize("name", ["999999999.record", "100000.record"])
def test_a_number_that_no_attempt_can_have_is_ignored(home: Path, name: str) -> None:
    directory = local_run(home, "slim-7b").directory
    directory.mkdir(parents=True)
    (directory / name).touch()
    assert launched(home).attempt == 1
    assert stop_here(local_run(home, "slim-7b"))


def test_a_launch_after_the_last_number_is_refused(home: Path) -> None:
    directory = local_run(home, "slim-7b").directory
    directory.mkdir(parents=True)
    (directory / "99999.record").touch()
    with pytest.raises(UsageError, match="no attempt can follow number 99,999"):
        launched(home, agree=True)


def test_every_part_of_a_long_line_is_of_the_rank_that_printed_it(home: Path) -> None:
    ends(home, 0)
    launched(home)
    run = run_in(home)
    until(lambda: status_here(run).is_over)
    words = "word " * 300_000
    run.file(1, "log").write_text(f"[default1]:{words}\n[default0]:short\n[default1]:end\n")
    texts = [line.text for line in lines_here(run, Asked(rank=1))]
    assert len(texts) > 2
    assert "".join(texts) == words + "end"
    assert [line.text for line in lines_here(run, Asked(rank=0))] == ["short"]


def test_a_line_that_is_too_long_is_cut_between_words() -> None:
    """Half a token would not be recognised, and would be shown."""
    token = "hf_" + "aB3" * 11
    log = cast("BufferedReader", BytesIO(f"{token} ".encode() * 40_000))
    lines = [part.data for part in _raw_lines(log, lambda: False)]
    assert len(lines) > 1
    assert [line for line in lines if token[3:] in redact(line.decode())] == []
    assert {word for line in lines for word in line.split()} == {token.encode()}


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("hf_" + "aB3" * 11, "aB3aB3"),
        ("--password hunter2", "hunter2"),
        ("HF_TOKEN='two words'", "words"),
        ("https://user:hunter2@host/x", "hunter2"),
        ("Authorization: Basic aHVudGVyMjpodW50ZXIy", "aHVudGVy"),
        ("-----BEGIN PRIVATE KEY-----\\nMIIEv9\\n-----END PRIVATE KEY-----", "MIIEv9"),
    ],
)
@pytest.mark.parametrize("filler", ["x", "0123456789abcdef", "tick \r"])
def test_a_line_is_not_cut_in_a_secret(text: str, secret: str, filler: str) -> None:
    class Pieces(BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            return super().read(LONGEST_LINE + 1)

    long = filler * LONGEST_LINE
    ends = [end - n for end in (LONGEST_LINE, LONGEST_LINE - HELD) for n in range(-2, len(text), 9)]
    for place in ends:
        line = f"{long[:place]}\t{text}\t{long}"[: 2**17]
        pieces = cast("BufferedReader", Pieces(line.encode()))
        lines = [part.data for part in _raw_lines(pieces, lambda: False)]
        assert b"".join(lines).decode() == line
        assert len(lines) > 1
        assert [each for each in lines if secret in redact(each.decode())] == []


def test_a_secret_of_many_kilobytes_costs_the_line() -> None:
    line = f"Cookie: session={'aB3 ' * 500_000}\nnext\n"
    log = cast("BufferedReader", BytesIO(line.encode()))
    lines = [part.data for part in _raw_lines(log, lambda: False)]
    assert [redact(each.decode()) for each in lines if each] == [REDACTED, "next"]


def test_a_supervisor_starts_without_the_planner_and_the_engines() -> None:
    """It is started for every attempt, and lives as long as the run."""
    look = "import sys, seatrial.runs.launch.host_supervisor; print(*sys.modules)"
    words = [sys.executable, "-c", look]
    loaded = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    assert not {"pydantic", "ruamel.yaml", "seatrial.engines"} & set(loaded)


def test_a_child_that_has_not_started_its_program_is_no_supervisor(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = local_run(home, "slim-7b")
    run.directory.mkdir(parents=True)
    run.add(AttemptRecord(1, "b", "2026-11-15T03:12:00Z", "torchrun", "sha256:1"))
    words = ("-m", SUPERVISOR, str(run.file(1, "task").resolve()))
    monkeypatch.setattr(host_ledger, "command_lines", lambda: {20: words, 30: words})
    monkeypatch.setattr(host_ledger, "open_files", lambda _: [])
    monkeypatch.setattr(host_ledger, "parent", lambda process: {20: 1, 30: 20}[process])
    assert run.supervisors(thorough=True) == {1: 20}
