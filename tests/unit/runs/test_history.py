# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which history a word means, and that each is told whole, in order and once."""

import io
import json
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.cluster.errors import ClusterError
from seatrial.codes.cluster import ClusterCode
from seatrial.errors import ExitCode, FindingsError, SeatrialError, UsageError
from seatrial.monitoring.event_log import Event, EventKind, EventLog
from seatrial.runs.history import files, sources
from seatrial.runs.history.history import (
    AttemptHistory,
    Begun,
    Over,
    Quiet,
    RunHistory,
    attempts_of,
)
from seatrial.runs.history.locate import Places, find_history
from seatrial.runs.history.sources import FileSource
from seatrial.runs.ledger.host import LocalRun, local_run
from seatrial.runs.ledger.ledger import AttemptOutcome, AttemptRecord, End
from seatrial.runs.namespace import Site

ENGINE_LOG = Path(__file__).parents[2] / "data" / "logs" / "megatron-0.19.log"
NOON = 1_794_744_000.0


def places(directory: Path, stdin: bytes = b"", *, live: bool = False) -> Places:
    return Places(Catalog(), io.BytesIO(stdin), directory=directory, live=live)


def write_steps(file: Path, first: int, last: int, at: float, *, end: int | None = 0) -> None:
    log = EventLog(file)
    log.append(Event(EventKind.START, first - 1, at, {"began": at - 5, "world_size": 2}))
    for step in range(first, last + 1):
        at += 1
        log.append(Event(EventKind.STEP, step, at, {"seconds": 1.0, "loss": 1 / step}))
    if end is not None:
        log.append(Event(EventKind.EXIT, last, at + 1, {"code": end}))
    log.close()


def shape(history: RunHistory, *, follow: bool = False) -> list[str]:
    """The story in short: begins, numbers of steps, ends."""
    words = []
    for told in history.story(follow=follow):
        if isinstance(told, Begun):
            words.append(f"begin {told.attempt.number}")
        elif isinstance(told, Over):
            words.append(f"over {told.attempt.number}")
        elif isinstance(told, Event) and told.kind is EventKind.STEP:
            words.append(str(told.step))
    return words


def record(number: int, submitted: str) -> AttemptRecord:
    return AttemptRecord(number, f"s{number}", submitted, "torchrun", "digest")


def kept_run(home: Path) -> LocalRun:
    """A run on this host with two attempts that write one event log."""
    run = local_run(home, "slim-7b")
    events = home / "data" / "slim-7b" / "events.jsonl"
    write_steps(events, 1, 3, NOON + 20, end=1)
    write_steps(events, 3, 4, NOON + 120)
    for number, minute in ((1, 0), (2, 1)):
        run.add(record(number, f"2026-11-15T12:0{minute}:00Z"))
        task = {"environment": {"SEATRIAL_EVENTS": str(events)}}
        run.file(number, "task").write_text(json.dumps(task))
        run.file(number, "log").write_text(f"attempt {number}\n")
        run.end(
            number, End(f"2026-11-15T12:0{minute}:50Z", AttemptOutcome.FAILED, "torchrun ended")
        )
    return run


def test_a_run_on_this_host_is_told_with_its_attempts(tmp_path: Path) -> None:
    kept_run(tmp_path)
    history = find_history("slim-7b", places(tmp_path))
    assert shape(history) == ["begin 1", "1", "2", "3", "over 1", "begin 2", "3", "4", "over 2"]
    first, second = history.attempts
    assert (first.outcome, first.reason, first.submitted) == (
        AttemptOutcome.FAILED,
        "torchrun ended",
        NOON,
    )
    assert [event.step for event in second.events()] == [2, 3, 4, 4]
    assert list(second.logs[0].lines()) == [b"attempt 2"]
    assert not history.is_live()


def test_followed_a_run_that_is_over_is_told_the_same(tmp_path: Path) -> None:
    kept_run(tmp_path)
    history = find_history("slim-7b", places(tmp_path))
    assert shape(history, follow=True) == shape(history)


def test_a_new_attempt_and_new_steps_are_followed(tmp_path: Path) -> None:
    events, records = tmp_path / "events.jsonl", [record(1, "2026-11-15T12:00:00Z")]
    write_steps(events, 1, 2, NOON + 20, end=None)
    live = [True]
    naps = []

    def nap(_: float) -> None:
        naps.append(0)
        if len(naps) == 2:
            records.append(record(2, "2026-11-15T12:01:00Z"))
            write_steps(events, 2, 3, NOON + 100)
            live[0] = False

    source = FileSource(events, nap)
    history = RunHistory(
        "r", "here", lambda: attempts_of(records, source, lambda _: ()), is_live=lambda: live[0]
    )
    assert shape(history, follow=True) == [
        *("begin 1", "1", "2", "over 1"),
        *("begin 2", "2", "3", "over 2"),
    ]
    assert any(isinstance(told, Quiet) for told in history.story(follow=True))


def test_half_a_line_is_waited_for(tmp_path: Path) -> None:
    file = tmp_path / "run.events.jsonl"
    write_steps(file, 1, 2, NOON, end=None)
    whole = file.read_bytes()
    file.write_bytes(whole[:-30])
    live = [True]

    def nap(_: float) -> None:
        with file.open("ab") as stream:
            stream.write(whole[-30:])
        live[0] = False

    attempt = AttemptHistory(1, FileSource(file, nap))
    history = RunHistory("r", "here", lambda: (attempt,), is_live=lambda: live[0])
    assert shape(history, follow=True) == ["begin 1", "1", "2", "over 1"]


@pytest.mark.parametrize("replaced", [True, False])
def test_a_file_that_is_replaced_or_cut_is_read_again(tmp_path: Path, replaced: bool) -> None:
    file, other = tmp_path / "run.events.jsonl", tmp_path / "other"
    write_steps(file, 1, 3, NOON, end=None)
    write_steps(other, 4, 4, NOON + 10)
    naps = []

    def nap(_: float) -> None:
        naps.append(0)
        if len(naps) == 2 and replaced:
            file.rename(tmp_path / "run.events.jsonl.1")
        elif len(naps) == 2:
            file.write_bytes(b"")
        elif len(naps) == 4 and replaced:
            other.rename(file)
        elif len(naps) == 4:
            file.write_bytes(other.read_bytes())

    attempt = AttemptHistory(1, FileSource(file, nap))
    history = RunHistory("r", "here", lambda: (attempt,), is_live=lambda: len(naps) < 6)
    assert shape(history, follow=True) == ["begin 1", "1", "2", "3", "4", "over 1"]


def test_a_rehearsal_is_told_as_the_run_that_was_killed_and_resumed(tmp_path: Path) -> None:
    twin = tmp_path / ".seatrial" / "slim-7b" / "rehearsal-2026-11-15T03-10-00" / "twin-1"
    write_steps(twin / "straight.events.jsonl", 1, 3, NOON)
    by_name = find_history("slim-7b", places(tmp_path))
    assert shape(by_name) == ["begin 1", "1", "2", "3", "over 1"]
    write_steps(twin / "killed.events.jsonl", 1, 2, NOON + 100, end=None)
    write_steps(twin / "resumed.events.jsonl", 2, 3, NOON + 200)
    (twin / "killed.log").write_text("words\n")
    told = ["begin 1", "1", "2", "over 1", "begin 2", "2", "3", "over 2"]
    for word in ("slim-7b", str(twin), str(twin.parent), str(twin.parents[1]), str(tmp_path)):
        history = find_history(word, places(tmp_path))
        assert shape(history) == told, word
    assert list(history.attempts[0].logs[0].lines()) == [b"words"]


def test_a_file_of_an_engine_and_a_pipe_are_told_alike(tmp_path: Path) -> None:
    of_file = find_history(str(ENGINE_LOG), places(tmp_path))
    piped = find_history("-", places(tmp_path, ENGINE_LOG.read_bytes()))
    watched = find_history("-", places(tmp_path, ENGINE_LOG.read_bytes(), live=True))
    told = shape(of_file)
    assert len(told) > 3
    assert shape(piped) == told
    # Put aside, a pipe can be read again, as text too.
    assert shape(piped) == told
    assert list(piped.attempts[0].logs[0].lines()) == ENGINE_LOG.read_bytes().splitlines()
    assert shape(watched, follow=True) == told


def test_a_pipe_is_followed_through_silence(tmp_path: Path) -> None:
    write_steps(tmp_path / "events.jsonl", 1, 2, NOON)
    *lines, last = (tmp_path / "events.jsonl").read_bytes().splitlines(keepends=True)
    goes_on = threading.Event()

    class Pipe(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            if lines:
                return lines.pop(0)
            # Until the story was quiet three times, nothing comes.
            goes_on.wait()
            return super().read1(size)

    asked = Places(Catalog(), Pipe(last), directory=tmp_path, live=True)
    told, quiet = [], 0
    for one in find_history("-", asked).story(follow=True):
        quiet += isinstance(one, Quiet)
        if quiet == 3:
            goes_on.set()
        told += [one.kind] if isinstance(one, Event) else []
    assert told == [EventKind.START, EventKind.STEP, EventKind.STEP, EventKind.EXIT]


def test_logs_of_several_starts_in_a_directory_are_attempts_in_order(tmp_path: Path) -> None:
    write_steps(tmp_path / "b.jsonl", 1, 2, NOON, end=None)
    write_steps(tmp_path / "a.jsonl", 2, 3, NOON + 100)
    (tmp_path / "notes.txt").write_text("nothing of an engine\n")
    history = find_history(str(tmp_path), places(tmp_path))
    assert shape(history) == ["begin 1", "1", "2", "over 1", "begin 2", "2", "3", "over 2"]
    names = [[Path(log.name).name for log in attempt.logs] for attempt in history.attempts]
    assert names == [["b.jsonl", "notes.txt"], ["a.jsonl", "notes.txt"]]


def test_logs_of_two_nodes_in_a_directory_are_one_attempt(tmp_path: Path) -> None:
    """Megatron-LM tells of the start on the first rank, and of steps on the last."""
    for attempt in (1, 2):
        first = tmp_path / f"{attempt}-node-0.log"
        when = f"2026-11-15 0{attempt}:10:00"
        first.write_text(f"[before the start of training step] datetime: {when} \n")
        (tmp_path / f"{attempt}-node-1.log").write_text(
            f" [2026-11-15 0{attempt}:11:00] iteration        {attempt}/      40 | consumed "
            "samples:         1024 | elapsed time per iteration (ms): 2210.5 | learning rate: "
            "3.0E-06 | global batch size:  1024 | lm loss: 1.082391E+01 | loss scale: 1.0 |\n"
        )
    history = find_history(str(tmp_path), places(tmp_path))
    assert shape(history) == ["begin 1", "1", "over 1", "begin 2", "2", "over 2"]
    names = [Path(log.name).name for log in history.attempts[1].logs]
    assert names == ["2-node-0.log", "2-node-1.log"]


def test_a_file_that_has_not_grown_is_not_live(tmp_path: Path) -> None:
    file = tmp_path / "run.events.jsonl"
    write_steps(file, 1, 1, NOON)
    history = find_history(str(file), places(tmp_path))
    assert history.is_live()
    old = time.time() - 1000
    os.utime(file, (old, old))
    assert not history.is_live()


def test_silence_is_no_end_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only its own last word is, and then some time without another."""
    monkeypatch.setattr(sources, "PAUSE_SECONDS", 0.0)
    file, old = tmp_path / "run.events.jsonl", time.time() - 1000
    write_steps(file, 1, 2, NOON, end=None)
    os.utime(file, (old, old))
    quiet, steps = 0, 0
    for told in find_history(str(file), places(tmp_path)).story(follow=True):
        quiet += isinstance(told, Quiet)
        steps += isinstance(told, Event) and told.kind is EventKind.STEP
        if isinstance(told, Quiet) and quiet == 10:
            write_steps(file, 3, 3, NOON + 900)
            os.utime(file, (old, old))
    assert (quiet >= 10, steps) == (True, 3)


@pytest.mark.parametrize(
    ("word", "error", "said"),
    [
        ("nobody", FindingsError, "no run or rehearsal named nobody"),
        ("no/such/file.log", UsageError, "not a file, a directory or the name"),
        (".", UsageError, "contains no event log"),
    ],
)
def test_nothing_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, error: type, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=said) as raised:
        find_history(word, places(tmp_path))
    assert isinstance(raised.value, SeatrialError)


def test_without_a_cluster_its_error_comes_first_and_counts(tmp_path: Path) -> None:
    def site(_: str) -> Site:
        raise ClusterError(ClusterCode.CONFIG, "config", "it cannot be read.", "Give another.")

    with pytest.raises(ClusterError) as raised:
        find_history("nobody", replace(places(tmp_path), site=site))
    assert raised.value.exit_code == ExitCode.CLUSTER
    first, second = raised.value.findings
    assert first.code == ClusterCode.CONFIG
    assert "no run or rehearsal named nobody" in second.rule


def test_an_event_log_that_is_to_come_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "STALE_SECONDS", 0.0)
    log = tmp_path / "run" / "events.jsonl"
    with pytest.raises(UsageError, match="is not a file"):
        find_history(str(log), places(tmp_path))
    history = find_history(str(log), places(tmp_path, live=True))

    def begin() -> None:
        log.parent.mkdir()
        write_steps(log, 1, 3, NOON)

    late = threading.Timer(1.0, begin)
    late.start()
    assert shape(history, follow=True) == ["begin 1", "1", "2", "3", "over 1"]
    late.join()
