# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The event log: a run's own append-only history, one JSON line an event.

It is the heartbeat of a run as well: whoever reads it sees the newest step and when it was.
"""

import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class EventKind(StrEnum):
    """What an event tells."""

    START = "start"
    """The processes are up and training is about to begin; `step` is the step resumed from.

    Brings what the engine runs with: world_size, tp_size, pp_size, vp_size, cp_size, ep_size,
    recompute, micro_batch_size, global_batch_size, sequence_length, layers, hidden_size.
    """
    STEP = "step"
    """An optimizer step is done: seconds, loss, grad_norm, learning_rate, skipped."""
    SAVE = "save"
    """A checkpoint is written (or handed over, when saving is asynchronous): seconds."""
    EVALUATION = "evaluation"
    """An evaluation is done: seconds, loss, split."""
    EXIT = "exit"
    """Training returned: code, and error when it failed."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the log."""

    kind: EventKind
    """What it tells."""
    step: int
    """The step it belongs to."""
    time: float
    """Seconds since 1970."""
    values: dict[str, Any] = field(default_factory=dict)
    """What the kind brings along."""


class EventLog:
    """Appends events to a file; every line is written whole, so that a reader never sees half."""

    def __init__(self, path: Path) -> None:
        """Open the file for appending, making its directory if need be."""
        path.parent.mkdir(parents=True, exist_ok=True)
        torn = path.exists() and not _ends_whole(path)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        if torn:
            # An attempt that was killed may have left half a line.
            os.write(self._file, b"\n")

    def write(self, kind: EventKind, step: int, **values: Any) -> None:
        """Append one event; a number that is none is written as text, which JSON can hold."""
        line = {"kind": kind, "step": step, "time": round(time.time(), 3)}
        line |= {name: _plain(value) for name, value in values.items()}
        text = json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n"
        os.write(self._file, text.encode())


def _ends_whole(path: Path) -> bool:
    """Whether a file is empty or ends with a whole line."""
    with path.open("rb") as stream:
        if stream.seek(0, os.SEEK_END) == 0:
            return True
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"


def _plain(value: Any) -> Any:
    """The value, or `nan`, `inf` or `-inf` as text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: Any) -> Any:
    """The value, with the texts of numbers that are none turned back."""
    return float(value) if value in ("nan", "inf", "-inf") else value


def read_events(path: Path) -> Iterator[Event]:
    """The events of a log, in order; half a line, of a process that was killed, is left out."""
    # What is no text is no event either, as half a line is none.
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                values = json.loads(line)
                kind, step, when = (values.pop(key) for key in ("kind", "step", "time"))
                event = EventKind(kind)
            except (ValueError, KeyError, TypeError, AttributeError):
                continue
            plain = {name: _number(value) for name, value in values.items()}
            yield Event(event, step, when, plain)
