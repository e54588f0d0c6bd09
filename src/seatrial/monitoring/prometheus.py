# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The metrics that a run shows to Prometheus: which there are, and their values from its events.

All come from the event log and from nothing else, so that a process that starts again reads the
log and goes on where the one before was: counters do not fall back to 0. Names and units follow
https://prometheus.io/docs/practices/naming; a step is a value and never a label.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.goodput import Account, Bucket
from seatrial.monitoring.metrics import Metrics, Snapshot
from seatrial.monitoring.rank_times import RankFigure, rank_figure
from seatrial.version import VERSION


class Form(StrEnum):
    """What a value may do."""

    GAUGE = "gauge"
    """Go up and down."""
    COUNTER = "counter"
    """Only go up."""


@dataclass(frozen=True, slots=True)
class Exported:
    name: str
    """Its whole name, with unit and `_total`."""
    form: Form
    """What its value may do."""
    about: str
    """What it says, in one line."""
    label: tuple[str, ...] = ()
    """Its labels beside `run`."""


def _gauge(name: str, about: str, *label: str) -> Exported:
    return Exported(f"seatrial_{name}", Form.GAUGE, about, label)


def _counter(name: str, about: str, *label: str) -> Exported:
    return Exported(f"seatrial_{name}_total", Form.COUNTER, about, label)


EXPORTED = (
    _gauge("build_info", "Always 1; the worker's version is the label.", "version"),
    _gauge("ranks", "Ranks that train."),
    # How far, and how well.
    _gauge("training_step", "The newest step."),
    _gauge("training_target_step", "The step at which the run is done."),
    _counter("training_steps", "Optimizer steps, those done again included."),
    _counter("training_replayed_steps", "Steps that were done before and were lost."),
    _counter("training_skipped_steps", "Steps whose update the loss scale skipped."),
    _counter(
        "training_nonfinite_steps",
        "Steps with a loss or gradient norm that is no number, and not skipped.",
    ),
    _counter("training_tokens", "Tokens of all optimizer steps, those done again included."),
    _gauge("training_loss", "Loss of the newest step."),
    _gauge("training_grad_norm", "Gradient norm of the newest step."),
    _gauge("training_learning_rate", "Learning rate of the newest step."),
    _gauge("evaluation_loss", "Loss of the newest evaluation of a split.", "split"),
    _counter("evaluations", "Evaluations."),
    # How fast.
    _gauge("step_duration_seconds", "Seconds of the newest step."),
    _gauge("step_duration_median_seconds", "Median of the newest 50 steps."),
    _counter("step_part_seconds", "Seconds that steps spent on each of their parts.", "part"),
    _gauge(
        "rank_busy_seconds",
        "Seconds of a step until a rank waits for others: least, median and most of all ranks.",
        "statistic",
    ),
    _gauge(
        "rank_data_seconds",
        "Seconds of a step that a rank waits for data: least, median and most of all ranks.",
        "statistic",
    ),
    _gauge("rank_memory_bytes", "The most memory so far: least, median and most.", "statistic"),
    _gauge("slowest_rank", "Number of the rank that is busy longest."),
    # Where the time went, and what was kept.
    _counter("run_seconds", "Wall time by what it was spent on (goodput).", "bucket"),
    _counter("starts", "Times that training began or went on."),
    _counter("failures", "Times that training ended by an error."),
    _counter("checkpoint_saves", "Checkpoints written, or handed over where that is asynchronous."),
    _counter("checkpoint_save_seconds", "Seconds for which training stood still for them."),
    _gauge("checkpoint_step", "Step of the newest checkpoint."),
    _gauge("checkpoint_interval_steps", "Steps between checkpoints, as the engine was told."),
    _gauge("checkpoint_timestamp_seconds", "When the newest was saved, since 1970."),
    # What needs somebody.
    _counter("findings", "Findings while running.", "code", "severity"),
    _gauge("finding_timestamp_seconds", "When each was last found.", "code", "severity"),
    _gauge("last_event_timestamp_seconds", "When the run was last heard of, since 1970."),
)
"""Every metric, in the order of the page."""

Labels = tuple[str, ...]
Samples = dict[str, dict[Labels, float]]
"""The values of each metric by its labels' values; one that is not known is not there."""

_FIGURES = {
    "busy": "seatrial_rank_busy_seconds",
    "data": "seatrial_rank_data_seconds",
    "memory": "seatrial_rank_memory_bytes",
}


class RunNumbers:
    """Takes events and knows the values; its size does not grow with the number of steps."""

    def __init__(self) -> None:
        """Begin before the first event, with the counters that are 0 then."""
        self._metrics, self._account = Metrics(), Account()
        self._values: Samples = {metric.name: {} for metric in EXPORTED}
        self._values["seatrial_build_info"] = {(VERSION,): 1.0}
        for metric in EXPORTED:
            if metric.form is Form.COUNTER and not metric.label:
                # A counter that comes into being with 1 has no increase to Prometheus.
                self._set(metric.name, 0.0)

    def take(self, event: Event) -> None:
        """Take in one event."""
        self._metrics.take(event)
        self._account.take(event)
        newest = self._values["seatrial_last_event_timestamp_seconds"].get((), event.time)
        self._set("seatrial_last_event_timestamp_seconds", max(newest, event.time))
        match event.kind:
            case EventKind.START:
                self._add("seatrial_starts_total")
                self._set("seatrial_ranks", event.values.get("world_size"))
                every = event.values.get("save_every_steps")
                self._set("seatrial_checkpoint_interval_steps", every)
            case EventKind.STEP:
                self._stepped(event)
            case EventKind.RANKS:
                self._ranks(event)
            case EventKind.SAVE:
                self._add("seatrial_checkpoint_saves_total")
                seconds = _number(event.values.get("seconds")) or 0.0
                self._add("seatrial_checkpoint_save_seconds_total", seconds)
                self._set("seatrial_checkpoint_step", event.step)
                self._set("seatrial_checkpoint_timestamp_seconds", event.time)
            case EventKind.EVALUATION:
                self._add("seatrial_evaluations_total")
                split = str(event.values.get("split") or "validation")
                self._set("seatrial_evaluation_loss", event.values.get("loss"), split)
            case EventKind.FINDING if event.values.get("phase") != "ended":
                named = [str(event.values.get(key, "")) for key in ("code", "severity")]
                self._add("seatrial_findings_total", 1.0, *named)
                self._set("seatrial_finding_timestamp_seconds", event.time, *named)
            case EventKind.EXIT:
                self._add(
                    "seatrial_failures_total", float(event.values.get("code") not in (0, None))
                )
            case _:
                pass

    def samples(self) -> Samples:
        made = {name: dict(values) for name, values in self._values.items()}
        snapshot, goodput = self._metrics.snapshot(), self._account.result()
        for name, value in _newest(snapshot).items():
            if value is not None:
                made[name] = {(): float(value)}
        made["seatrial_training_skipped_steps_total"] = {(): float(snapshot.skipped)}
        made["seatrial_training_replayed_steps_total"] = {(): float(goodput.replayed_steps)}
        made["seatrial_run_seconds_total"] = {(str(b),): goodput.seconds[b] for b in Bucket}
        return made

    def _stepped(self, event: Event) -> None:
        values = event.values
        steps = float(values.get("steps") or 1)
        self._add("seatrial_training_steps_total", steps)
        figures = [values.get(name) for name in ("loss", "grad_norm")]
        odd = any(isinstance(each, float) and _number(each) is None for each in figures)
        # A gradient that overflows is how a loss scale in fp16 is found; that step is skipped.
        lost = odd and not values.get("skipped")
        self._add("seatrial_training_nonfinite_steps_total", float(lost))
        basis = self._metrics.basis()
        if basis is not None:
            self._add("seatrial_training_tokens_total", steps * basis.tokens_per_step)
        self._set("seatrial_step_duration_seconds", _number(values.get("seconds")))
        parts = values.get("parts")
        for name, seconds in (parts if isinstance(parts, Mapping) else {}).items():
            self._add("seatrial_step_part_seconds_total", _number(seconds) or 0.0, str(name))

    def _ranks(self, event: Event) -> None:
        for name, metric in _FIGURES.items():
            figure = rank_figure(event.values.get(name))
            if figure is None:
                continue
            for statistic, value in _statistics(figure).items():
                self._set(metric, value, statistic)
            if name == "busy" and figure.highest:
                self._set("seatrial_slowest_rank", figure.highest[0][0])

    def _set(self, name: str, value: Any, *labels: str) -> None:
        """Keep a value; what is no number at all is left as it was."""
        if isinstance(value, (int, float)):
            self._values[name][labels] = float(value)

    def _add(self, name: str, more: float = 1.0, *labels: str) -> None:
        self._values[name][labels] = self._values[name].get(labels, 0.0) + more


def _newest(snapshot: Snapshot) -> dict[str, float | None]:
    """What the newest step says."""
    return {
        "seatrial_training_step": snapshot.step,
        "seatrial_training_target_step": snapshot.total_steps,
        "seatrial_training_loss": snapshot.loss,
        "seatrial_training_grad_norm": snapshot.grad_norm,
        "seatrial_training_learning_rate": snapshot.learning_rate,
        "seatrial_step_duration_median_seconds": snapshot.step_seconds,
    }


def _statistics(figure: RankFigure) -> dict[str, float]:
    return {"min": figure.least, "median": figure.median, "max": figure.most}


def _number(value: object) -> float | None:
    """The value where it is a finite number."""
    good = isinstance(value, (int, float)) and value - value == 0
    return float(value) if good and isinstance(value, (int, float)) else None
