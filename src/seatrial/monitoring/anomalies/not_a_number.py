# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""NaN and infinities in the loss or the gradient norm."""

import math

from seatrial.codes.anomalies import AnomalyCode
from seatrial.findings import Severity
from seatrial.monitoring.anomalies.detector import AnomalyRule, Seen, Symptom
from seatrial.monitoring.anomalies.rolling_stats import number
from seatrial.monitoring.engine_signals import all_signals
from seatrial.monitoring.event_log import Event, EventKind

SCALE_SEARCH = 32
"""Consecutive skipped steps that the search for a loss scale may take: halved every second step
from 2^32 (Megatron's default, with a hysteresis of 2), it reaches 2^16 after that many."""

RULE = AnomalyRule(
    AnomalyCode.NOT_A_NUMBER,
    "NaN or infinity",
    Severity.ERROR,
    "The loss or the gradient norm of a step is NaN or infinite, the engine counts a NaN step, or "
    "it exits with code 16 or 17. With dynamic loss scaling (fp16), skipped steps count only after "
    f"{SCALE_SEARCH} in a row.",
    "The first such step.",
    "A weight that is NaN stays NaN, and every later step is lost; waiting does not help. "
    "In fp16, skipped steps are part of the search for the loss scale: starting from "
    f"Megatron's 2^32, it takes {SCALE_SEARCH} skipped steps to reach 2^16.",
    "Stop the run and roll back to the last checkpoint before this step. If it fails again at the "
    "same step, suspect the data (skip that batch) or the learning rate. If it fails elsewhere, "
    "suspect the GPU of the rank that the engine's log names, and exclude its node.",
    calm=1,
)


class NotANumber:
    rule = RULE

    def __init__(self) -> None:
        signals = tuple(all_signals())
        self._exits = {code: why for one in signals for code, why in one.rejection_exits.items()}
        self._lines = tuple(line for one in signals for line in one.rejection_lines)
        self._skipped = 0
        self._since: int | None = None

    def observe(self, event: Event) -> Seen:
        """Check a step, or the exit code of the engine."""
        if event.kind is EventKind.EXIT:
            why = self._exits.get(event.values.get("code") or 0)
            if why is None:
                return None
            message = f"The engine rejected the result of step {event.step + 1:,} {why}."
            return (Symptom(message, f"exit code {event.values['code']}", event.step + 1),)
        if event.kind is not EventKind.STEP:
            return None
        skipped = bool(event.values.get("skipped"))
        self._skipped = self._skipped + 1 if skipped else 0
        found = [
            (name, value)
            for name, key in (("loss", "loss"), ("gradient norm", "grad_norm"))
            if (value := number(event.values.get(key))) is not None and not math.isfinite(value)
        ]
        if (number(event.values.get("nan")) or 0) > 0 and not found:
            found = [("loss", math.nan)]
        # If only the loss scale was too large for the step, the loss itself is finite.
        searching = skipped and self._skipped <= SCALE_SEARCH
        if searching and not any(name == "loss" for name, _ in found):
            return None
        if not found:
            self._since = None
            return ()
        self._since = self._since or event.step
        name, value = found[0]
        return (Symptom(f"The {name} at step {event.step:,} is {value}.", str(value), self._since),)

    def observe_line(self, line: str) -> Seen:
        """Check the engine's messages, which name the rank."""
        found = next(filter(None, (pattern.search(line) for pattern in self._lines)), None)
        if found is None:
            return None
        rank, step, value = found["rank"], int(found["step"]), found["value"] or "NaN"
        message = f"Rank {rank} got {value} at step {step:,}."
        return (Symptom(message, value, step, f"rank {rank}"),)
