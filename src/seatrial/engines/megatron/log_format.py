# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Parse Megatron-LM's output into events, including runs that were started without Seatrial.

The format is defined in megatron/training/training.py (steps, evaluations, start and end),
checkpointing.py and utils.py (memory) at the tags core_v0.4.0 to core_v0.19.0.
"""

import re
from typing import Any

from seatrial.engines.megatron.step_line import REQUIRED, StepLayout
from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.logs.wrapping import Dates, LogLine, seconds_of, unwrap
from seatrial.monitoring.rank_times import sum_up_named

FOREIGN = 10_000
"""Maximum number of lines from other processes between two lines of a block."""

_TIMER = re.compile(
    r" +(?P<name>[^\s.][^\s:]{0,80}) \.*: "
    r"(?:\((?P<least>[0-9.]{1,20}), (?P<most>[0-9.]{1,20})\)|(?P<only>[0-9.]{1,20}))\s*$"
)
_OF_ALL = re.compile(r" +(?P<name>[^\s:][^\s:]{0,80}):\s*$")
_RANK = re.compile(r" +rank +(?P<rank>[0-9]{1,7}): (?P<time>[0-9.]{1,20})\s*$")


class TimerBlock:
    """Collects the lines of one block of timers."""

    def __init__(self, source: str, step: int, time: float) -> None:
        self.source = source
        self.step = step
        self.time = time
        self.foreign = 0
        self._spread: dict[str, list[float]] = {}
        self._ranks: dict[str, list[tuple[int, float]]] = {}
        self._name = ""

    def takes(self, text: str) -> bool:
        """Add a line if it belongs to the block. Return True if it was added."""
        try:
            return self._takes(text)
        except ValueError:
            return False

    def _takes(self, text: str) -> bool:
        found = _TIMER.match(text)
        if found is not None:
            most = _seconds(found["most"] or found["only"])
            # If only the maximum is printed, the minimum is unknown.
            least = [_seconds(found["least"])] if found["least"] else []
            self._spread[found["name"]] = [*least, most]
            return True
        found = _OF_ALL.match(text)
        if found is not None:
            self._name = found["name"]
            return True
        found = _RANK.match(text)
        if found is None or not self._name:
            return False
        pair = (int(found["rank"]), _seconds(found["time"]))
        self._ranks.setdefault(self._name, []).append(pair)
        return True

    def values(self) -> dict[str, Any]:
        """Return the values for the block's event; empty if the block has no timers."""
        timers: dict[str, Any] = dict(self._spread)
        ranks = {name: sum_up_named(pairs) for name, pairs in self._ranks.items()}
        timers |= {name: [figure.least, figure.most] for name, figure in ranks.items()}
        told = {"timers": timers} if timers else {}
        if ranks:
            told["ranks"] = {name: figure.to_dict() for name, figure in ranks.items()}
        return told


def _seconds(milliseconds: str) -> float:
    """Convert to seconds, rounded to the engine's precision."""
    return round(float(milliseconds) / 1000, 7)


_OWN_TIME = re.compile(r"\[([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}(?:\.[0-9]{1,6})?)\]")
_EVALUATION = re.compile(
    r"validation(?:-(?P<set>\S{1,80}))? loss at (?P<prefix>.{0,200}?) \|"
    r" lm loss value: (?P<loss>[^ |]{1,20}) \|"
)
_AT_STEP = re.compile(r"iteration +([0-9]{1,15})")
_SAVE = re.compile(
    r"(?P<what>saving checkpoint at|scheduled an async checkpoint save at"
    r"|successfully saved (?:local )?checkpoint from) iteration +(?P<step>[0-9]{1,15})"
)
_LOADED = re.compile(r"successfully loaded checkpoint from .* at iteration +([0-9]{1,15})")
_MOMENT = re.compile(
    r"\[(before the start of training step|after training is done|exiting program [^\]]{1,100})\]"
    r" datetime: ([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}(?:\.[0-9]{1,6})?)"
)
_MEMORY = re.compile(
    r"\[Rank ([0-9]{1,7})\] \([^)0-9]{0,100}([0-9]{1,15})[^)]{0,100}\) memory \(MB\) (.*)"
)
_LAST = 1e11
"""Upper limit of valid times, in seconds since 1970."""
_MIB = 2**20
"""The engine's unit, which it calls MB."""

_NOTHING: tuple[Event, ...] = ()


class MegatronLog:
    """Parses a log line by line, with bounded memory.

    A line without a timestamp from its wrapper gets the engine's own time, interpreted as UTC.
    Without an engine time, it gets the time of the previous line plus the step time.
    """

    marks = (b"iteration", b"across ranks (ms):", b"] datetime: ")
    """A line that contains none of these is irrelevant, unless a block is open."""

    @property
    def is_open(self) -> bool:
        """True if the next line may be relevant without a mark."""
        return self._block is not None

    def __init__(self) -> None:
        self._layout = StepLayout()
        self._dates = Dates()
        self._clock = 0.0
        self._step = 0
        self._known_step: int | None = None
        self._loaded = 0
        self._block: TimerBlock | None = None
        self._saving: dict[int, float] = {}
        self._handed_over: set[int] = set()

    def feed(self, line: bytes) -> tuple[Event, ...]:
        """Parse one line and return its events; empty for most lines. Does not raise."""
        if self._block is not None:
            return self._in_block(line)
        if b"elapsed time per iteration" in line:
            return self._stepped(_read(line))
        if b"iteration" in line:
            return self._of_iteration(line)
        if b"across ranks (ms):" in line:
            return self._headline(_read(line))
        if b"] datetime: " in line:
            return self._moment(_read(line))
        return _NOTHING

    def close(self) -> tuple[Event, ...]:
        """Return the event of the block that is open at the end of the log."""
        block, self._block = self._block, None
        return _NOTHING if block is None else _told(block)

    def _of_iteration(self, line: bytes) -> tuple[Event, ...]:
        """Parse a line that mentions an iteration."""
        read = _read(line)
        if b"memory (MB)" in line:
            return self._memory(read)
        if b"checkpoint" in line:
            return self._checkpoint(read)
        if b"validation" in line:
            return self._evaluation(read)
        return self._moment(read) if b"] datetime: " in line else _NOTHING

    def _in_block(self, line: bytes) -> tuple[Event, ...]:
        """Parse a line while a block is open: part of it, from a different process, or its end."""
        block = self._block
        read = _read(line)
        if block is None or (block.source == read.source and block.takes(read.text)):
            return _NOTHING
        # Another block may follow. Any other line from the same process also ends the block.
        if block.source != read.source and block.foreign < FOREIGN:
            block.foreign += 1
            self._block = None
            events = self.feed(line)
            if self._block is None:
                self._block = block
                return events
            return (*_told(block), *events)
        self._block = None
        return (*_told(block), *self.feed(line))

    def _headline(self, read: LogLine) -> tuple[Event, ...]:
        self._block = TimerBlock(read.source, self._step, self._at(read.time))
        return _NOTHING

    def _stepped(self, read: LogLine) -> tuple[Event, ...]:
        """Parse a step's line."""
        line = self._layout.read(read.text)
        if line is None:
            return _NOTHING
        step, values, before = line.step, line.values, self._known_step
        values["steps"] = step - before if before is not None and step > before else 1
        self._step = self._known_step = step
        when = read.time
        if when is None and line.date is not None:
            when = self._dates.seconds(line.date)
        if when is None:
            when = self._clock + values[REQUIRED] * values["steps"]
        return (Event(EventKind.STEP, step, self._at(when), values),)

    def _checkpoint(self, read: LogLine) -> tuple[Event, ...]:
        """Parse the start, handover, end or load of a checkpoint."""
        found = _SAVE.search(read.text)
        when = self._at(_time(read))
        if found is None:
            loaded = _LOADED.search(read.text)
            if loaded is not None:
                self._loaded = int(loaded[1])
            return _NOTHING
        step = int(found["step"])
        if found["what"].startswith("saving"):
            # Keep only one save, so that unfinished saves do not accumulate.
            self._saving = {step: when}
            return _NOTHING
        if found["what"].startswith("successfully") and step in self._handed_over:
            self._handed_over.discard(step)
            return (Event(EventKind.SAVED, step, when, {}),)
        asynchronous = found["what"].startswith("scheduled")
        if asynchronous:
            self._handed_over = {*sorted(self._handed_over)[-8:], step}
        began = self._saving.pop(step, None)
        known = began is not None and _time(read) is not None
        seconds = round(when - began, 6) if known and began is not None else None
        values = {"seconds": seconds, "asynchronous": asynchronous}
        return (Event(EventKind.SAVE, step, when, values),)

    def _evaluation(self, read: LogLine) -> tuple[Event, ...]:
        """Parse the loss on validation or test data."""
        found = _EVALUATION.search(read.text)
        loss = None if found is None else _number(found["loss"])
        if found is None or loss is None:
            return _NOTHING
        at = _AT_STEP.search(found["prefix"])
        split = "test" if "test set" in found["prefix"] else "validation"
        values: dict[str, Any] = {"seconds": None, "loss": loss, "split": split}
        if found["set"]:
            values["set"] = found["set"]
        step = int(at[1]) if at else self._step
        return (Event(EventKind.EVALUATION, step, self._at(_time(read)), values),)

    def _memory(self, read: LogLine) -> tuple[Event, ...]:
        """Parse the device memory of one rank."""
        found = _MEMORY.search(read.text)
        if found is None:
            return _NOTHING
        values: dict[str, Any] = {"rank": int(found[1])}
        for part in found[3].split("|"):
            label, _, text = part.rpartition(":")
            size = _number(text.strip())
            if label.strip() and size is not None and 0 <= size < 1e9:
                values[label.strip().replace(" ", "_")] = round(size * _MIB)
        return (Event(EventKind.MEMORY, int(found[2]), self._at(_time(read)), values),)

    def _moment(self, read: LogLine) -> tuple[Event, ...]:
        """Parse the start or end of training."""
        found = _MOMENT.search(read.text)
        if found is None:
            return _NOTHING
        when = self._at(read.time if read.time is not None else seconds_of(found[2]))
        if found[1].startswith("before"):
            self._step = self._known_step = self._loaded
            self._loaded = 0
            return (Event(EventKind.START, self._step, when, {}),)
        self._known_step = None
        values = {"code": 0, "said": found[1]}
        return (Event(EventKind.EXIT, self._step, when, values),)

    def _at(self, when: float | None) -> float:
        """Return the time of a line, and remember it as the newest."""
        # A garbled line may contain any number of seconds; ignore implausible values.
        if when is not None and 0 <= when < _LAST:
            self._clock = when
        return self._clock


def _read(line: bytes) -> LogLine:
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    # A step's line without a wrapper's prefix.
    return LogLine(text, None, "") if text.startswith((" [2", " it")) else unwrap(text)


def _time(read: LogLine) -> float | None:
    """Return the wrapper's time, or the engine's own time in brackets."""
    if read.time is not None:
        return read.time
    own = _OWN_TIME.match(read.text.lstrip())
    return seconds_of(own[1]) if own else None


def _told(block: TimerBlock) -> tuple[Event, ...]:
    """Return the event of a finished block."""
    values = block.values()
    return (Event(EventKind.TIMERS, block.step, block.time, values),) if values else _NOTHING


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
