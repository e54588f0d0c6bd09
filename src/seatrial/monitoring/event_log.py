# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The event log: a run's own append-only history, one JSON line an event.

It is the heartbeat of a run as well: whoever reads it sees the newest step and when it was.
"""

import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from seatrial.secrets.redaction import redact_tree
from seatrial.storage.state_files import open_descriptor, open_regular


class EventKind(StrEnum):
    """What an event tells."""

    RESTART = "restart"
    """Processes were started again within an attempt: count, began (when the process was made)."""
    START = "start"
    """The processes are up and training is about to begin; `step` is the step resumed from.

    Brings when it `began` and what the engine runs with: world_size, tp_size, pp_size, vp_size,
    cp_size, ep_size, recompute, micro_batch_size, global_batch_size, sequence_length, layers,
    hidden_size, total_steps, save_every_steps.
    """
    STEP = "step"
    """An optimizer step is done: seconds, loss, grad_norm, learning_rate, skipped, parts.

    A log that tells of every tenth step only has means, and says how many `steps` they are of.
    """
    RANKS = "ranks"
    """How the ranks fared in the steps up to this one: busy, data and memory, each summed up."""
    TIMERS = "timers"
    """Timers that the engine printed: the least and the most seconds of each, over the ranks."""
    MEMORY = "memory"
    """A rank's device memory as the engine printed it: rank, and bytes of each kind."""
    SAVE = "save"
    """A checkpoint is written (or handed over, when saving is asynchronous): seconds."""
    SAVED = "saved"
    """A checkpoint that was handed over is written."""
    EVALUATION = "evaluation"
    """An evaluation is done: seconds, loss, split."""
    FINDING = "finding"
    """Something was found while running: the finding's code, severity, rule, value and fix."""
    EXIT = "exit"
    """Training returned: code, and error when it failed; began, when there was no start."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the log."""

    kind: EventKind
    step: int
    """The step it belongs to."""
    time: float
    """Seconds since 1970."""
    values: dict[str, Any] = field(default_factory=dict)
    """What the kind brings along."""

    def __post_init__(self) -> None:
        """Redact the values, of events to be written and of those that any program wrote."""
        plain = redact_tree(self.values)
        if plain is not self.values:
            object.__setattr__(self, "values", plain)


class EventLog:
    """Appends events to a file; every line is written whole, so that a reader never sees half."""

    def __init__(self, path: Path) -> None:
        """Open the file for appending, making its directory if need be."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open_descriptor(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        if not _ends_whole(self._file):
            # An attempt that was killed may have left half a line.
            os.write(self._file, b"\n")

    def write(self, kind: EventKind, step: int, **values: Any) -> None:
        """Append one event of this moment."""
        self.append(Event(kind, step, round(time.time(), 3), values))

    def append(self, event: Event) -> None:
        """Append one event; a number that is none is written as text, which JSON can hold."""
        os.write(self._file, encoded(event))

    def close(self) -> None:
        """Give the file back."""
        os.close(self._file)


def encoded(event: Event) -> bytes:
    """The event as its line."""
    line = {"kind": event.kind, "step": event.step, "time": event.time, **_plain(event.values)}
    return json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def decoded(line: bytes | str) -> Event | None:
    """The event of a line; none where the line is half of one, or nothing of ours."""
    try:
        values = json.loads(line)
        kind, step, when = (values.pop(key) for key in ("kind", "step", "time"))
        return Event(EventKind(kind), int(step), float(when), _numbers(values))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None


def _ends_whole(file: int) -> bool:
    """Whether an open file is empty or ends with a whole line."""
    size = os.fstat(file).st_size
    return size == 0 or os.pread(file, 1, size - 1) == b"\n"


def _plain(value: Any) -> Any:
    """The value, with `nan`, `inf` or `-inf` as text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _numbers(value: Any) -> Any:
    """The value, with the texts of numbers that are none turned back."""
    if isinstance(value, str):
        return float(value) if value in ("nan", "inf", "-inf") else value
    if isinstance(value, dict):
        return {name: _numbers(inner) for name, inner in value.items()}
    return [_numbers(inner) for inner in value] if isinstance(value, list) else value


def read_events(path: Path) -> Iterator[Event]:
    """The events of a log, in order; half a line, of a process that was killed, is left out."""
    # What is no text is no event either, as half a line is none.
    with TextIOWrapper(open_regular(path), encoding="utf-8", errors="replace") as lines:
        for line in lines:
            event = decoded(line)
            if event is not None:
                yield event


LAST_STEP = 10**12
LAST_TIME = 1e11
"""Steps and seconds since 1970 that no run reaches."""
LARGEST = 1e30
"""What no loss, norm or size reaches that is a number at all."""

_COUNTS = (
    *("steps", "total_steps", "world_size", "global_batch_size", "sequence_length", "skipped"),
    *("micro_batch_size", "count", "rank"),
)
"""Values that are whole numbers and not negative."""
_AMOUNTS = (
    *("seconds", "began", "learning_rate", "tokens_per_second", "flops_per_gpu", "mfu"),
    "tflops_per_gpu",
)
"""Values that are numbers and not negative."""
_LOSSES = ("loss", "grad_norm")
"""Values that may be no number at all, which is what is looked for."""
_TABLES = ("parts", "timers", "busy", "data", "memory")
"""Values that are tables of numbers."""
_TEXTS = ("code", "rule", "fix", "severity", "split", "error", "phase", "about")
"""Values that are said."""


def sanitize_event(event: Event) -> Event | None:
    """Drop implausible values, as a garbled log has them; None if the step or the time is one."""
    if not (0 <= event.step < LAST_STEP and 0 <= event.time < LAST_TIME):
        return None
    wrong = [name for name, value in event.values.items() if not _is_good(name, value)]
    if not wrong:
        return event
    values = {name: value for name, value in event.values.items() if name not in wrong}
    return Event(event.kind, event.step, event.time, values)


def _is_good(name: str, value: Any) -> bool:
    """Whether a value is of the kind that its name promises; None always is."""
    if value is None:
        return True
    if name in _LOSSES:
        return _is_number(value) and not (math.isfinite(value) and abs(value) > LARGEST)
    if name in _COUNTS:
        return isinstance(value, int) and 0 <= value < LAST_STEP
    if name in _AMOUNTS:
        return _is_number(value) and 0 <= value <= LARGEST
    if name in _TABLES:
        return isinstance(value, Mapping) and all(map(_is_figure, value.values()))
    if name in _TEXTS:
        return isinstance(value, (str, int))
    return True


def _is_figure(value: Any) -> bool:
    """A number that is one, or a list of such."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_figure, value))
    return _is_number(value) and abs(value) <= LARGEST


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
