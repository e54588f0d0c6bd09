# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Events that a pod reads from a run's volume: none is lost when the run is over first."""

import json
import threading
import time
from collections.abc import Callable

import pytest

from seatrial.errors import UsageError
from seatrial.monitoring.event_log import Event, EventKind, encoded
from seatrial.runs.history import sources
from seatrial.runs.history.history import AttemptHistory, RunHistory
from seatrial.runs.history.sources import PAUSE_SECONDS, VolumeSource

STEPS = [Event(EventKind.STEP, step, float(step), {"loss": 1.0}) for step in (1, 2, 3)]
EXIT = Event(EventKind.EXIT, 3, 4.0, {"code": 0})
LINES = [encoded(event).decode() for event in (*STEPS, EXIT)]


class Reader:
    """A reader that is behind when it is followed."""

    def __init__(self, ahead: int) -> None:
        """Tell so many events before it comes to a stop."""
        self.ahead = ahead
        self.asked: list[bool] = []
        self.ended = threading.Event()

    def __call__(self, follow: bool, say: Callable[[str], None]) -> int:
        self.asked.append(follow)
        for line in LINES[: self.ahead] if follow else LINES:
            say(line)
        if follow:
            self.ended.wait(60)
        return 0


def followed(reader: Reader) -> list[Event]:
    """The events of a run that is over, as somebody hears them who follows it."""
    found = VolumeSource(reader, lambda: False).events(follow=True)
    told = [event for event in found if event is not None]
    reader.ended.set()
    return told


def test_what_a_late_reader_has_not_told_is_read_once_more() -> None:
    for ahead in range(4):
        reader = Reader(ahead)
        assert followed(reader) == [*STEPS, EXIT]
        assert reader.asked == [True, False]


def test_nothing_is_read_again_after_the_end_was_told() -> None:
    reader = Reader(len(LINES))
    assert followed(reader) == [*STEPS, EXIT]
    assert reader.asked == [True]


def test_another_reader_takes_over_from_one_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "READER_PAUSES", (0.0, 0.0))
    asked: list[int] = []

    def ends(follow: bool, say: Callable[[str], None]) -> int:
        # The first finds nothing, and each of the others one event more.
        for line in LINES[: len(asked)]:
            say(line)
        asked.append(1)
        return 0

    source = VolumeSource(ends, lambda: len(asked) <= len(LINES))
    told = [event for event in source.events(follow=True) if event is not None]
    assert told == [*STEPS, EXIT]
    assert len(asked) == len(LINES) + 1


def test_another_reader_takes_over_from_one_that_was_killed() -> None:
    codes = [137, 0]

    def killed(follow: bool, say: Callable[[str], None]) -> int:
        say("a stray word")
        for line in LINES[:2] if len(codes) == 2 else LINES:
            say(line)
        return codes.pop(0)

    source = VolumeSource(killed, lambda: False)
    assert [event for event in source.events(follow=True) if event is not None] == [*STEPS, EXIT]
    assert not codes


def test_why_a_volume_cannot_be_read_is_said_in_the_words_of_the_pod() -> None:
    def fails(follow: bool, say: Callable[[str], None]) -> int:
        for line in json.dumps({"error": "there is no log", "findings": []}, indent=2).splitlines():
            say(line)
        return 2

    with pytest.raises(UsageError, match=r"cannot read the run's volume: there is no log$"):
        list(VolumeSource(fails, lambda: False).events())


def test_a_reader_that_takes_its_time_to_start_is_waited_for() -> None:
    def slow(follow: bool, say: Callable[[str], None]) -> int:
        time.sleep(4 * PAUSE_SECONDS)
        return Reader(len(LINES))(follow, say)

    source = VolumeSource(slow, lambda: False)
    history = RunHistory("run", "its volume", lambda: (AttemptHistory(1, source),))
    assert [told for told in history.story() if isinstance(told, Event)] == [*STEPS, EXIT]
