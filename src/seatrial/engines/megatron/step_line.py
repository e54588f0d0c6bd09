# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Parse the fields in a step's log line, first by label and then with one pattern.

A run prints the same labels in the same order for weeks. A pattern compiled from these labels
parses a line three times as fast. Lines that do not match the pattern are parsed by label again.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

Number = int | float


def _from_milliseconds(text: str) -> float:
    # Shift the decimal point in the text, so that 436.9 ms is 0.4369 s and not 0.43689999 s.
    return float(f"{text.strip()}e-3")


FIELDS: dict[str, tuple[str, Callable[[str], Number]]] = {
    "consumed samples": ("consumed_samples", int),
    "consumed bins": ("consumed_bins", int),
    "skipped samples": ("skipped_samples", int),
    "elapsed time per iteration (ms)": ("seconds", _from_milliseconds),
    "throughput per GPU (TFLOP/s/GPU)": ("tflops_per_gpu", float),
    "energy per GPU (J/iter/GPU)": ("joules_per_gpu", float),
    "power per GPU (W/GPU)": ("watts_per_gpu", float),
    "learning rate": ("learning_rate", float),
    "decoupled learning rate": ("decoupled_learning_rate", float),
    "global batch size": ("global_batch_size", int),
    "lm loss": ("loss", float),
    "loss scale": ("loss_scale", float),
    "grad norm": ("grad_norm", float),
    "num zeros": ("num_zeros", float),
    "params norm": ("params_norm", float),
    "number of skipped iterations": ("skipped", int),
    "number of nan iterations": ("nan", int),
    # Megatron-DeepSpeed.
    "elapsed time per iteration (s)": ("seconds", float),
    "consumed tokens": ("consumed_tokens", int),
    "samples per second": ("samples_per_second", float),
    "TFLOPs": ("tflops_per_gpu", float),
}
"""Seatrial's name for each field, and the conversion of its text to a number."""

REQUIRED = "seconds"
"""A line without a step time is not a step's line."""


_HEAD = (
    r"\s*(?:\[(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}(?:\.[0-9]{1,6})?)\] )?"
    r"iteration +([0-9]{1,15})/ *([0-9]{1,15}) \|"
)
_ANYWHERE = re.compile(r"(?:^|[\s\]:])(?=iteration +[0-9]{1,15}/ *[0-9]{1,15} \|)")
_OWN_DATE = re.compile(r"\[[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}(?:\.[0-9]{1,6})?\] $")
_FIRST = re.compile(_HEAD)
_DEFAULTS: dict[str, Any] = {"loss": None, "grad_norm": None, "learning_rate": None, "skipped": 0}


class StepLine(NamedTuple):
    """The content of a step's line."""

    date: str | None
    """The engine's own date and time."""
    step: int
    values: dict[str, Any]
    """The fields under Seatrial's names, and `total_steps`."""


class StepLayout:
    """Parses step lines, and remembers the labels of the last one."""

    def __init__(self) -> None:
        self._pattern: re.Pattern[str] | None = None
        self._names: tuple[str, ...] = ()
        self._converters: tuple[Any, ...] = ()
        self._others: tuple[str, ...] = ()
        self._absent: dict[str, Any] = {}
        self._labels: list[str] = []

    def read(self, text: str) -> StepLine | None:
        """Parse a line. Return None if it is not a step's line or is garbled."""
        if self._pattern is not None:
            found = self._pattern.match(text)
            if found is not None:
                try:
                    return self._matched(found.groups())
                except ValueError:
                    return None
        return self._taken_apart(text)

    def _matched(self, groups: tuple[str, ...]) -> StepLine:
        """Return the values in a line that matches the pattern."""
        converted = [make(text) for make, text in zip(self._converters, groups[3:], strict=True)]
        values = dict(zip(self._names, converted, strict=True))
        values.update(self._absent)
        if self._others:
            values["other"] = {label: values.pop(label) for label in self._others}
        values["total_steps"] = int(groups[2])
        return StepLine(groups[0], int(groups[1]), values)

    def _taken_apart(self, text: str) -> StepLine | None:
        """Parse a line by its labels, and remember the labels for the next line."""
        place = _ANYWHERE.search(text)
        if place is None:
            return None
        own = _OWN_DATE.search(text, 0, place.end())
        head = _FIRST.match(text, own.start() if own else place.end())
        if head is None:
            return None
        values, other, labels = dict(_DEFAULTS), {}, []
        # Drop a field that no bar follows: it may be truncated and still look like a number.
        for part in text[head.end() :].split("|")[:-1]:
            label, _, value = part.partition(":")
            label = label.strip()
            name, make = FIELDS.get(label, ("", float))
            labels.append(label)
            try:
                if name:
                    values[name] = make(value)
                elif label:
                    other[label] = make(value)
            except ValueError:
                # Another rank may print into the middle of a line, and a field from a newer engine
                # version may not be a number.
                if name:
                    return None
        if REQUIRED not in values:
            return None
        if other:
            values["other"] = other
        values["total_steps"] = int(head[3])
        self._learn(labels, other)
        return StepLine(head["date"], int(head[2]), values)

    def _learn(self, labels: list[str], other: dict[str, Any]) -> None:
        """Compile the pattern for lines with these labels, if each occurs once and is a number."""
        # Compiling costs as much as parsing a hundred lines, so compile only if labels repeat.
        before, self._labels = self._labels, labels
        if labels != before:
            return
        known = [label for label in labels if label in FIELDS]
        if len(set(labels)) == len(labels) and len(known) + len(other) == len(labels):
            fields = "".join(rf"\s*{re.escape(label)}:\s*([^\s|:]+)\s*\|" for label in labels)
            self._pattern = re.compile(rf"{_HEAD}{fields}[^|]*$")
            pairs = [FIELDS.get(label, (label, float)) for label in labels]
            self._names = tuple(name for name, _ in pairs)
            self._converters = tuple(make for _, make in pairs)
            self._others = tuple(other)
            self._absent = {name: v for name, v in _DEFAULTS.items() if name not in self._names}
