# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Parse the console output of Composer, LLM Foundry's trainer, into events.

A step is a headline with the progress, and one line per metric. The format is defined in
composer/loggers/console_logger.py, callbacks/speed_monitor.py and memory_monitor.py at v0.32.1.
"""

import re
from typing import Any

from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.logs.wrapping import LogLine, unwrap

_HEADLINE = re.compile(
    r"(?:\[epoch=(?P<epoch>[0-9]{1,9})\])?"
    r"\[(?P<unit>batch|token|sample|iteration|second|epoch)=(?P<done>[0-9]{1,15})"
    r"(?:/(?P<total>[0-9]{1,15}))?\]:\s*$"
)
_EVALUATION = re.compile(
    r"\[Eval batch=[0-9]{1,15}/[0-9]{1,15}\] Eval on (?P<set>.{1,200}) data:\s*$"
)
_METRIC = re.compile(r"\s+(?:Train|Eval) (?P<name>\S{1,200}): (?P<value>.{0,200})")
_FOREIGN = 10_000
"""Maximum number of lines from other processes between two lines of a block."""
_MOST_METRICS = 2_000
"""Maximum number of metrics per step. A run that logs every weight has more; they are dropped."""
_GIGABYTE = 1e9

NAMES = {
    "loss/train/total": "loss",
    "l2_norm/grad/global": "grad_norm",
    "time/token": "consumed_tokens",
    "time/sample": "consumed_samples",
    "throughput/tokens_per_sec": "tokens_per_second",
    "throughput/samples_per_sec": "samples_per_second",
    "throughput/device/flops_per_sec": "flops_per_gpu",
    "throughput/device/mfu": "mfu",
}
"""Seatrial's names for Composer's metrics. Other metrics keep their names."""

_NOTHING: tuple[Event, ...] = ()


class _Block:
    """A headline and the metrics that followed it."""

    def __init__(self, headline: LogLine, found: re.Match[str], training: bool) -> None:
        self.source = headline.source
        self.time = headline.time
        self.found = found
        self.training = training
        self.metrics: dict[str, float] = {}
        self.foreign = 0


class ComposerLog:
    """Parses a log line by line, with bounded memory."""

    marks = (b"]:", b" data:")
    """A line that contains none of these is irrelevant, unless a block is open."""

    @property
    def is_open(self) -> bool:
        """True if the next line may be relevant without a mark."""
        return self._block is not None

    def __init__(self) -> None:
        self._block: _Block | None = None
        self._clock = 0.0
        self._step = 0
        self._known = False
        self._told_by = ""

    def feed(self, line: bytes) -> tuple[Event, ...]:
        """Parse one line. Return the event of the block that this line ends, if any."""
        headline = b"]:" in line or b" data:" in line
        if self._block is None and not headline:
            return _NOTHING
        read = unwrap(line.decode("utf-8", "replace").rstrip("\r\n"))
        block = self._block
        if block is None:
            self._block = _opened(read)
            return _NOTHING
        if read.source != block.source and block.foreign < _FOREIGN:
            block.foreign += 1
            return _NOTHING
        metric = _METRIC.match(read.text)
        if metric is not None and len(block.metrics) < _MOST_METRICS:
            value = _number(metric["value"])
            if value is not None:
                block.metrics[metric["name"]] = value
            return _NOTHING
        self._block = _opened(read)
        return self._told(block)

    def close(self) -> tuple[Event, ...]:
        """Return the event of the block that is open at the end of the log."""
        block, self._block = self._block, None
        return _NOTHING if block is None else self._told(block)

    def _told(self, block: _Block) -> tuple[Event, ...]:
        """Return the event of a finished block."""
        before = self._clock
        if block.time is not None:
            self._clock = block.time
        if not block.metrics:
            return _NOTHING
        if not block.training:
            return (self._evaluated(block),)
        step = _step(block)
        if step is None or (step == self._step and self._known and block.source != self._told_by):
            # Several ranks may print the same step; keep only the first.
            return _NOTHING
        covered = step - self._step if self._known and step > self._step else 1
        self._step, self._known, self._told_by = step, True, block.source
        values = _values(block.metrics)
        values["steps"] = covered
        values["seconds"] = _seconds(block.metrics)
        if values["seconds"] is None and block.time is not None and before and self._clock > before:
            values["seconds"] = round((self._clock - before) / covered, 6)
        if block.time is None and values["seconds"] is not None:
            self._clock += values["seconds"] * covered
        if block.found["unit"] == "batch" and not block.found["epoch"] and block.found["total"]:
            values["total_steps"] = int(block.found["total"])
        return (Event(EventKind.STEP, step, self._clock, values),)

    def _evaluated(self, block: _Block) -> Event:
        """Return the event of an evaluation."""
        losses = [v for name, v in block.metrics.items() if name.endswith("CrossEntropy")]
        values: dict[str, Any] = {
            "seconds": None,
            "loss": losses[0] if losses else None,
            "split": "validation",
            "set": block.found["set"],
            "other": dict(block.metrics),
        }
        return Event(EventKind.EVALUATION, self._step, self._clock, values)


def _opened(read: LogLine) -> _Block | None:
    """Open a block if the line is a headline."""
    text = read.text.strip()
    found = _HEADLINE.match(text)
    if found is not None:
        return _Block(read, found, training=True)
    found = _EVALUATION.match(text)
    return None if found is None else _Block(read, found, training=False)


def _step(block: _Block) -> int | None:
    """Return the step of a block."""
    done = block.metrics.get("time/batch")
    if done is not None and 0 <= done < 1e15:
        # Composer counts this before the step, and the headline after the step.
        return int(done) + 1
    plain = block.found["unit"] == "batch" and not block.found["epoch"]
    return int(block.found["done"]) if plain else None


def _seconds(metrics: dict[str, float]) -> float | None:
    """Return the step time in seconds, from rates that are printed with four decimals.

    Steps that take minutes have a rate such as `0.0027`, so the sample rate is more precise.
    """
    batches, samples = metrics.get("time/batch", 0), metrics.get("time/sample", 0)
    rate = metrics.get("throughput/samples_per_sec", 0)
    if batches > 0 and samples > 0 and rate > 0:
        return round(samples / batches / rate, 6)
    rate = metrics.get("throughput/batches_per_sec", 0)
    return round(1 / rate, 6) if rate > 0 else None


def _values(metrics: dict[str, float]) -> dict[str, Any]:
    """Return a step's values from its metrics."""
    values: dict[str, Any] = {
        "seconds": None,
        "loss": None,
        "grad_norm": None,
        "learning_rate": None,
        "skipped": 0,
    }
    other: dict[str, float] = {}
    for name, value in metrics.items():
        if name in NAMES:
            values[NAMES[name]] = value
        elif name.startswith("lr-") and values["learning_rate"] is None:
            values["learning_rate"] = value
        elif name.startswith("memory/") and name.endswith("_mem") and abs(value) < 1e9:
            values.setdefault("memory", {})[name[len("memory/") :]] = round(value * _GIGABYTE)
        else:
            other[name] = value
    if other:
        values["other"] = other
    return values


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
