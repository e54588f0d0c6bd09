# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The Prometheus metrics of a run: their definitions, and their values from the event log.

All values come from the event log only. A restarted exporter reads the log and continues, so
counters do not fall back to 0. Names and units follow
https://prometheus.io/docs/practices/naming; a step is a value and never a label.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.goodput import Account, Bucket
from seatrial.monitoring.gpus import gpu_state
from seatrial.monitoring.metrics import Metrics, Snapshot
from seatrial.monitoring.rank_times import RankFigure, rank_figure
from seatrial.version import VERSION


class Form(StrEnum):
    """The Prometheus type of a metric."""

    GAUGE = "gauge"
    """Goes up and down."""
    COUNTER = "counter"
    """Only goes up."""


@dataclass(frozen=True, slots=True)
class Exported:
    name: str
    """Full name, with unit and `_total`."""
    form: Form
    about: str
    """Help text, in one line."""
    label: tuple[str, ...] = ()
    """Labels in addition to `run`."""


def _gauge(name: str, about: str, *label: str) -> Exported:
    return Exported(f"seatrial_{name}", Form.GAUGE, about, label)


def _counter(name: str, about: str, *label: str) -> Exported:
    return Exported(f"seatrial_{name}_total", Form.COUNTER, about, label)


EXPORTED = (
    _gauge("build_info", "Always 1; the worker's version is the label.", "version"),
    _gauge("ranks", "Number of training ranks."),
    # Progress and loss.
    _gauge("training_step", "The newest step."),
    _gauge("training_target_step", "The step at which training is complete."),
    _counter("training_steps", "Optimizer steps, including replayed ones."),
    _counter("training_replayed_steps", "Steps that were repeated after a failure."),
    _counter("training_skipped_steps", "Steps whose update the loss scaler skipped."),
    _counter(
        "training_nonfinite_steps",
        "Steps with a NaN or infinite loss or gradient norm that were not skipped.",
    ),
    _counter("training_tokens", "Tokens in all optimizer steps, including replayed ones."),
    _gauge("training_loss", "Loss of the newest step."),
    _gauge("training_grad_norm", "Gradient norm of the newest step."),
    _gauge("training_learning_rate", "Learning rate of the newest step."),
    _gauge("evaluation_loss", "Loss of the newest evaluation, by split.", "split"),
    _counter("evaluations", "Completed evaluations."),
    # Speed.
    _gauge("step_duration_seconds", "Duration of the newest step."),
    _gauge("step_duration_median_seconds", "Median duration of the newest 50 steps."),
    _counter("step_part_seconds", "Seconds spent on each part of a step.", "part"),
    _gauge(
        "rank_busy_seconds",
        "Seconds until a rank waits for the other ranks: min, median and max over the ranks.",
        "statistic",
    ),
    _gauge(
        "rank_data_seconds",
        "Seconds per step that a rank waits for data: min, median and max over the ranks.",
        "statistic",
    ),
    _gauge("rank_memory_bytes", "Peak memory: min, median and max.", "statistic"),
    _gauge("slowest_rank", "The rank with the longest busy time."),
    # GPUs, from NVML.
    _gauge("gpu_utilisation_ratio", "Share of time with a kernel: min, median, max.", "statistic"),
    _gauge("gpu_memory_bytes", "GPU memory in use: min, median and max.", "statistic"),
    _gauge("gpu_power_watts", "GPU power draw: min, median and max.", "statistic"),
    _gauge("gpu_clock_megahertz", "GPU clock frequency: min, median and max.", "statistic"),
    _gauge("gpu_temperature_celsius", "GPU temperature: min, median and max.", "statistic"),
    _gauge("gpu_throttled_ranks", "Ranks whose GPU is throttled."),
    _gauge("gpu_ecc_errors", "Uncorrectable ECC errors of the ranks' GPUs."),
    _counter("gpu_xid_errors", "Xid errors of the ranks' GPUs."),
    # Time and checkpoints.
    _counter("run_seconds", "Wall-clock time by use (goodput).", "bucket"),
    _counter("starts", "Starts of training, including restarts."),
    _counter("failures", "Number of times training exited with an error."),
    _counter("checkpoint_saves", "Checkpoints written, or staged if saving is asynchronous."),
    _counter("checkpoint_save_seconds", "Seconds that training was paused for saves."),
    _gauge("checkpoint_step", "Step of the newest checkpoint."),
    _gauge("checkpoint_interval_steps", "Steps between checkpoints, as set for the engine."),
    _gauge("checkpoint_timestamp_seconds", "Unix time of the newest checkpoint."),
    # Problems.
    _counter("findings", "Findings reported by the running job.", "code", "severity"),
    _gauge("finding_timestamp_seconds", "Unix time of the latest finding.", "code", "severity"),
    _gauge("last_event_timestamp_seconds", "Unix time of the run's latest event."),
)
"""All metrics, in the order of the documentation page."""

Labels = tuple[str, ...]
Samples = dict[str, dict[Labels, float]]
"""The values of each metric by its label values; unknown values are absent."""

_FIGURES = {
    "busy": "seatrial_rank_busy_seconds",
    "data": "seatrial_rank_data_seconds",
    "memory": "seatrial_rank_memory_bytes",
}


_GPU_FIGURES = {
    "utilisation": "seatrial_gpu_utilisation_ratio",
    "memory": "seatrial_gpu_memory_bytes",
    "power": "seatrial_gpu_power_watts",
    "clock": "seatrial_gpu_clock_megahertz",
    "temperature": "seatrial_gpu_temperature_celsius",
}


class RunNumbers:
    """Aggregates events into metric values; memory does not grow with the number of steps."""

    def __init__(self) -> None:
        """Start before the first event, with the counters that are 0 then."""
        self._metrics, self._account = Metrics(), Account()
        self._values: Samples = {metric.name: {} for metric in EXPORTED}
        self._values["seatrial_build_info"] = {(VERSION,): 1.0}
        for metric in EXPORTED:
            if metric.form is Form.COUNTER and not metric.label:
                # Prometheus sees no increase in a counter that first appears as 1.
                self._set(metric.name, 0.0)

    def take(self, event: Event) -> None:
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
            case EventKind.GPUS:
                self._gpus(event)
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
        # In fp16, overflowing gradients are part of loss scaling; the engine skips those steps.
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

    def _gpus(self, event: Event) -> None:
        state = gpu_state(event)
        if state is None:
            return
        for name, metric in _GPU_FIGURES.items():
            figure = state.figures.get(name)
            for statistic, value in _statistics(figure).items() if figure is not None else ():
                self._set(metric, value, statistic)
        self._set("seatrial_gpu_throttled_ranks", state.throttled_ranks)
        self._set("seatrial_gpu_ecc_errors", sum(state.ecc_errors.values()))
        self._add("seatrial_gpu_xid_errors_total", float(len(state.xids)))

    def _set(self, name: str, value: Any, *labels: str) -> None:
        """Set a value; ignore anything that is not a number."""
        if isinstance(value, (int, float)):
            self._values[name][labels] = float(value)

    def _add(self, name: str, more: float = 1.0, *labels: str) -> None:
        self._values[name][labels] = self._values[name].get(labels, 0.0) + more


def _newest(snapshot: Snapshot) -> dict[str, float | None]:
    """Return the values of the newest step."""
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
    """Return the value if it is a finite number."""
    good = isinstance(value, (int, float)) and value - value == 0
    return float(value) if good and isinstance(value, (int, float)) else None
