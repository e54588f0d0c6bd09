# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What an engine calls the signals that the monitor looks for in its timers, log and exit codes."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from seatrial.spec.engine import REGISTERED_ENGINES, engine_named


@dataclass(frozen=True, slots=True)
class EngineSignals:
    """The signals of one engine; each is empty if the engine does not have it."""

    step_timer: str = ""
    """The timer of the forward and backward passes of a step."""
    data_timer: str = ""
    """The timer of the wait for a batch."""
    rejection_exits: Mapping[int, str] = field(default_factory=dict)
    """Exit codes after the engine rejected the result of a step, with the rest of the sentence."""
    rejection_lines: tuple[re.Pattern[str], ...] = ()
    """Log lines about a rejected result, with the groups `rank`, `step` and `value`."""


def all_signals() -> Iterator[EngineSignals]:
    """Yield the signals of each registered engine: events and logs do not name their engine."""
    for name in REGISTERED_ENGINES:
        yield engine_named(name).signals
