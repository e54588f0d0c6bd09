# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What of an event can be believed: a garbled log, or one from elsewhere, must not stop a view."""

import math
from collections.abc import Mapping
from typing import Any

from seatrial.monitoring.event_log import Event

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


def credible(event: Event) -> Event | None:
    """The event with what can be believed of it; nothing where not even its step can."""
    if not (0 <= event.step < LAST_STEP and 0 <= event.time < LAST_TIME):
        return None
    wrong = [name for name, value in event.values.items() if not _is_good(name, value)]
    if not wrong:
        return event
    values = {name: value for name, value in event.values.items() if name not in wrong}
    return Event(event.kind, event.step, event.time, values)


def _is_good(name: str, value: Any) -> bool:
    """Whether a value is of the kind that its name promises; nothing is always good."""
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
