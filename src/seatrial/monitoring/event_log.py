# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The event log: the append-only history of a run, one JSON object per line.

It also serves as the run's heartbeat: the last line shows the newest step and its time.
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
    """What happened, with the values that each kind has."""

    PREFLIGHT = "preflight"
    """Nodes were measured before training: nodes (a table each), rounds (the measured pairs of the
    search for slow nodes), slow (the slow nodes)."""
    RESTART = "restart"
    """Processes were restarted within an attempt: count, began (when the process was created)."""
    START = "start"
    """The processes are up and training is about to start; `step` is the step resumed from.

    Carries the time at which it `began` and the engine's settings: world_size, tp_size, pp_size,
    vp_size, cp_size, ep_size, recompute, micro_batch_size, global_batch_size, sequence_length,
    layers, hidden_size, total_steps, save_every_steps. With a batch schedule, global_batch_size is
    the last one, and total_samples is the length.
    """
    STEP = "step"
    """An optimizer step is done: seconds, loss, grad_norm, learning_rate, skipped, parts.

    With a batch schedule also global_batch_size and consumed_samples. In a log that has only every
    tenth step, the values are means over the number in `steps`.
    """
    RANKS = "ranks"
    """Time and memory of the ranks up to this step: summaries of busy, data and memory."""
    GPUS = "gpus"
    """State of the GPUs: summaries over the ranks of utilisation, memory, power, clock and
    temperature; ranks that are throttled, or have ECC or Xid errors."""
    TIMERS = "timers"
    """Timers that the engine printed: the minimum and maximum seconds of each, over the ranks."""
    MEMORY = "memory"
    """A rank's device memory as the engine printed it: rank, and bytes of each kind."""
    SAVE = "save"
    """A checkpoint is written (or staged, if saving is asynchronous): seconds."""
    SAVED = "saved"
    """An asynchronous save has finished writing."""
    EVALUATION = "evaluation"
    """An evaluation is done: seconds, loss, split."""
    FINDING = "finding"
    """The running job reported a finding: its code, severity, rule, value and fix."""
    EXIT = "exit"
    """Training returned: code, error if it failed, and began if there was no start."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the log."""

    kind: EventKind
    step: int
    """The step that the event belongs to."""
    time: float
    """Seconds since 1970."""
    values: dict[str, Any] = field(default_factory=dict)
    """The fields of this kind of event."""

    def __post_init__(self) -> None:
        """Redact the values of all events: those to be written and those read from any log."""
        plain = redact_tree(self.values)
        if plain is not self.values:
            object.__setattr__(self, "values", plain)


class EventLog:
    """Appends events to a file. Each line is one write, so readers never see a partial line."""

    def __init__(self, path: Path) -> None:
        """Open the file for appending; create its directory if necessary."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open_descriptor(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        if not _ends_whole(self._file):
            # A killed attempt may have left a partial line.
            os.write(self._file, b"\n")

    def write(self, kind: EventKind, step: int, **values: Any) -> None:
        """Append an event with the current time."""
        self.append(Event(kind, step, round(time.time(), 3), values))

    def append(self, event: Event) -> None:
        """Append an event. JSON has no NaN and no infinities: they are written as strings."""
        os.write(self._file, encoded(event))

    def close(self) -> None:
        os.close(self._file)


def encoded(event: Event) -> bytes:
    line = {"kind": event.kind, "step": event.step, "time": event.time, **_plain(event.values)}
    return json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def decoded(line: bytes | str) -> Event | None:
    """Parse a line. Return None if it is incomplete or not an event."""
    try:
        values = json.loads(line)
        kind, step, when = (values.pop(key) for key in ("kind", "step", "time"))
        return Event(EventKind(kind), int(step), float(when), _numbers(values))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None


def _ends_whole(file: int) -> bool:
    """True if an open file is empty or ends with a newline."""
    size = os.fstat(file).st_size
    return size == 0 or os.pread(file, 1, size - 1) == b"\n"


def _plain(value: Any) -> Any:
    """Replace NaN and infinities with strings."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _numbers(value: Any) -> Any:
    """Convert the strings `nan`, `inf` and `-inf` back to numbers."""
    if isinstance(value, str):
        return float(value) if value in ("nan", "inf", "-inf") else value
    if isinstance(value, dict):
        return {name: _numbers(inner) for name, inner in value.items()}
    return [_numbers(inner) for inner in value] if isinstance(value, list) else value


def read_events(path: Path) -> Iterator[Event]:
    """Yield the events of a log in order. Skip partial lines, such as those of a killed process."""
    # Bytes that are not UTF-8 make a line that does not parse, and such lines are skipped too.
    with TextIOWrapper(open_regular(path), encoding="utf-8", errors="replace") as lines:
        for line in lines:
            event = decoded(line)
            if event is not None:
                yield event


LAST_STEP = 10**12
LAST_TIME = 1e11
"""Upper bounds for steps and for seconds since 1970 that no run reaches."""
LARGEST = 1e30
"""Upper bound for finite losses, norms and sizes."""

_COUNTS = (
    *("steps", "total_steps", "world_size", "global_batch_size", "sequence_length", "skipped"),
    *("micro_batch_size", "count", "rank", "throttled_ranks", "consumed_samples"),
    "total_samples",
)
"""Non-negative integers."""
_AMOUNTS = (
    *("seconds", "began", "learning_rate", "tokens_per_second", "flops_per_gpu", "mfu"),
    "tflops_per_gpu",
)
"""Non-negative numbers."""
_LOSSES = ("loss", "grad_norm")
"""Numbers that may be NaN or infinite: detectors look for these."""
_TABLES = (
    *("parts", "timers", "busy", "data", "memory"),
    *("utilisation", "power", "clock", "temperature"),
)
"""Tables of numbers."""
_TEXTS = ("code", "rule", "fix", "severity", "split", "error", "phase", "about")
"""Strings."""


def sanitize_event(event: Event) -> Event | None:
    """Drop implausible values. Return None if the step or the time is implausible."""
    if not (0 <= event.step < LAST_STEP and 0 <= event.time < LAST_TIME):
        return None
    wrong = [name for name, value in event.values.items() if not _is_good(name, value)]
    if not wrong:
        return event
    values = {name: value for name, value in event.values.items() if name not in wrong}
    return Event(event.kind, event.step, event.time, values)


def _is_good(name: str, value: Any) -> bool:
    """True if a value has the type that its name implies. None is always valid."""
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
    """True for a finite number or a list of finite numbers."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_figure, value))
    return _is_number(value) and abs(value) <= LARGEST


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
