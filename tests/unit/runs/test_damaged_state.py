# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One damaged record of a run: a finding, and every command goes on."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from seatrial.codes.runs import RunCode
from seatrial.errors import FindingsError, UsageError
from seatrial.monitoring import processes
from seatrial.runs.history.logs import Asked, lines_here
from seatrial.runs.ledger.host import LocalRun, local_run
from seatrial.runs.ledger.kubernetes import ledger_name
from seatrial.runs.ledger.ledger import AttemptOutcome, AttemptRecord, End
from seatrial.runs.status.listing import list_here, list_runs
from seatrial.runs.status.status import status, status_here
from seatrial.runs.stop import delete, stop, stop_here
from tests.unit.cluster.fake_api import FakeTransport
from tests.unit.runs.fake_cluster import site_of
from tests.unit.runs.test_launch import RUN
from tests.unit.runs.test_launch import launched as launched_in_cluster
from tests.unit.runs.test_local import home, launched, run_in, until

__all__ = ["home"]

WHEN = "2026-11-15T03:12:00Z"


def begun(directory: Path) -> LocalRun:
    run = local_run(directory, "slim-7b")
    run.add(AttemptRecord(1, "a", WHEN, "torchrun", "sha256:1"))
    return run


def as_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def as_text(text: str | bytes) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    return write


DAMAGE = {
    "truncated": lambda path: os.truncate(path, 40),
    "empty": as_text(""),
    "list": as_text("[]"),
    "null": as_text("null"),
    "binary": as_text(b"\x00\xff\xfe" * 20),
    "nested": as_text("[" * 200_000),
    "no number": as_text('{"number": "one"}'),
    "not finite": as_text('{"number": NaN}'),
    "directory": as_directory,
    "pipe": as_pipe,
    "loop": as_loop,
    "missing": lambda path: path.rename(path.with_suffix(".task")),
    "bad date": as_text(
        '{"number": 1, "submission": "a", "submitted": "yesterday", "operator": "torchrun", '
        '"spec_digest": "sha256:1"}'
    ),
    "no time zone": as_text(
        '{"number": 1, "submission": "a", "submitted": "2026-11-15T03:12:00", "operator": "", '
        '"spec_digest": "sha256:1"}'
    ),
    "another attempt": as_text(
        '{"number": 7, "submission": "a", "submitted": "2026-11-15T03:12:00Z", "operator": "", '
        '"spec_digest": "sha256:1"}'
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.timeout(20)
def test_a_damaged_record_is_a_finding_and_the_attempt_stays_known(
    tmp_path: Path, damage: str
) -> None:
    run = begun(tmp_path)
    DAMAGE[damage](run.file(1, "record"))
    found = status_here(run)
    (finding,) = found.reasons
    assert finding.code == RunCode.DAMAGED
    assert str(run.file(1, "record")) in str(finding.where)
    assert "restore" in finding.fix
    assert (found.attempt, found.state) == (1, "gone")
    assert not stop_here(run)
    (line,) = list_here(tmp_path)
    assert (line.run, line.findings) == ("slim-7b", (finding,))
    assert run.read().next_number == 2


@pytest.mark.parametrize("damage", [name for name in DAMAGE if name != "missing"])
@pytest.mark.timeout(20)
def test_a_damaged_end_is_a_finding_and_the_next_end_takes_its_place(
    tmp_path: Path, damage: str
) -> None:
    run = begun(tmp_path)
    run.end(1, End(WHEN, AttemptOutcome.FAILED, "x" * 60))
    DAMAGE[damage](run.file(1, "end"))
    ledger = run.read()
    assert [finding.code for finding in ledger.damage] == [RunCode.DAMAGED]
    assert ledger.attempts[0].outcome is None
    if damage != "directory":
        run.end(1, End(WHEN, AttemptOutcome.STOPPED))
        assert run.read().attempts[0].outcome is AttemptOutcome.STOPPED


def test_an_end_that_can_be_read_stays(tmp_path: Path) -> None:
    run = begun(tmp_path)
    run.end(1, End(WHEN, AttemptOutcome.FAILED, "why", ("node-1",)))
    run.end(1, End(WHEN, AttemptOutcome.STOPPED))
    (record,) = run.read().attempts
    assert (record.outcome, record.reason, record.faulty_nodes) == (
        AttemptOutcome.FAILED,
        "why",
        ("node-1",),
    )


@pytest.mark.parametrize("kind", ["record", "lock", "task", "spec", "end", "log"])
@pytest.mark.timeout(60)
def test_stop_stops_whatever_became_of_a_file(home: Path, kind: str) -> None:
    launched(home)
    run = run_in(home)
    until(lambda: (home / "words").exists())
    path = run.file(1, kind)
    path.unlink(missing_ok=True)
    path.mkdir()
    assert status_here(run).state == "running"
    assert stop_here(run)
    assert not run.supervisors(thorough=True)
    shutil.rmtree(path)


@pytest.mark.timeout(60)
def test_stop_ends_no_other_process_than_the_supervisor(home: Path) -> None:
    launched(home)
    run = run_in(home)
    until(lambda: (home / "words").exists())
    supervisor = run.supervisor(1)
    for text in ("1", str(os.getpid()), "999999999", "-1", "x", ""):
        run.file(1, "lock").write_text(text)
        assert run.supervisor(1) == supervisor
    assert stop_here(run)


@pytest.mark.parametrize(
    ("stat", "is_one"),
    [
        # While it gives back its memory, its command line is gone, and its lock is held.
        ("77 (python) R 1 77 77 0 -1 4194308 0", True),
        ("77 (python) Z 1 77 77 0 -1 4194308 0", False),
        # A thread of the kernel has no command line, either.
        ("77 (kthreadd) S 0 0 0 0 -1 2129984 0", False),
        ("", False),
    ],
)
def test_a_process_that_is_exiting_is_a_supervisor_until_it_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stat: str, is_one: bool
) -> None:
    run = begun(tmp_path)
    kernel = tmp_path / "proc"
    (kernel / "77").mkdir(parents=True)
    (kernel / "77/cmdline").write_bytes(b"")
    (kernel / "77/stat").write_text(stat)
    monkeypatch.setattr(processes, "PROCESSES", kernel)
    with run.file(1, "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("77")
        lock.flush()
        assert run.supervisors() == {1: 77 if is_one else -1}


@pytest.mark.timeout(60)
def test_a_record_of_the_future_is_not_waited_for(tmp_path: Path) -> None:
    run = local_run(tmp_path, "slim-7b")
    run.add(AttemptRecord(1, "a", "9026-11-15T03:12:00Z", "torchrun", "sha256:1"))
    assert not stop_here(run)
    assert status_here(run).state == "gone"


@pytest.mark.timeout(60)
def test_a_run_whose_record_is_damaged_is_launched_again(home: Path) -> None:
    launched(home)
    run = run_in(home)
    run.file(1, "record").write_text("")
    done = launched(home)
    assert (done.is_new, done.attempt, done.why) == (False, 1, "it is running")
    assert [finding.code for finding in done.findings] == [RunCode.DAMAGED]
    with pytest.raises(FindingsError, match=r"training\.seed"):
        launched(home, "training.seed=7")
    assert stop_here(run)
    done = launched(home)
    assert (done.is_new, done.attempt) == (True, 2)
    assert stop_here(run)


@pytest.mark.timeout(20)
def test_a_log_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    run = begun(tmp_path)
    os.mkfifo(run.file(1, "log"))
    with pytest.raises(UsageError, match="named pipe"):
        list(lines_here(run, Asked()))


@pytest.mark.timeout(20)
def test_a_launch_lock_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    run = begun(tmp_path)
    os.mkfifo(run.directory / "launch.lock")
    with pytest.raises(UsageError, match=r"launch\.lock.*named pipe"), run.held():
        pass


def test_state_is_for_its_owner_only(home: Path) -> None:
    launched(home)
    run = run_in(home)
    modes = {path.name: path.stat().st_mode & 0o777 for path in run.directory.iterdir()}
    assert set(modes.values()) == {0o600}, modes
    for directory in (run.directory, run.directory.parent, run.directory.parents[1]):
        assert directory.stat().st_mode & 0o777 == 0o700
    stop_here(run)


def ledger_of_run(server: FakeTransport) -> dict[str, str]:
    (found,) = (item for key, item in server.objects.items() if ledger_name(RUN) in key)
    data: dict[str, str] = found["data"]
    return data


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{", '{"number": 1}', "[" * 100_000, '{"number": 1e999}', "\ud800"]
)
def test_a_damaged_ledger_in_a_cluster_blocks_nothing(text: str) -> None:
    server = FakeTransport()
    launched_in_cluster(server)
    ledger_of_run(server)["attempt-00001"] = text
    site = site_of(server)
    found = status(site, RUN)
    assert RunCode.DAMAGED in {finding.code for finding in found.reasons}
    (line,) = list_runs(site)
    assert line.run == RUN
    assert [finding.code for finding in line.findings] == [RunCode.DAMAGED]
    done = stop(site, RUN)
    assert done.was_running
    assert done.findings
    # What is left of the record stays for whoever restores it.
    assert ledger_of_run(server)["attempt-00001"] == text
    assert status(site, RUN).state == "gone"
    assert not stop(site, RUN).was_running
    assert launched_in_cluster(server, agree=True).attempt == 2
    delete(site, RUN, volumes=False)
    assert not list_runs(site)


def test_a_key_that_names_no_attempt_is_a_finding() -> None:
    server = FakeTransport()
    launched_in_cluster(server)
    data = ledger_of_run(server)
    data["attempt-one"] = data.pop("attempt-00001")
    site = site_of(server)
    stop(site, RUN)
    assert status(site, RUN).attempt == 0
    assert "data.attempt-one" in str(status(site, RUN).reasons[-1].where)
    assert launched_in_cluster(server).attempt == 1


def test_a_ledger_without_a_run_label_hides_no_other() -> None:
    server = FakeTransport()
    launched_in_cluster(server)
    (found,) = (item for key, item in server.objects.items() if ledger_name(RUN) in key)
    server.objects["configmaps", "default", "other-ledger"] = {
        **found,
        "metadata": {**found["metadata"], "name": "other-ledger", "labels": {}},
    }
    assert [line.run for line in list_runs(site_of(server))] == [RUN]
