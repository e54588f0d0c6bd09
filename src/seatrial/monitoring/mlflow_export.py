# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Export a run's event log to MLflow. Repeated and interrupted exports update the same MLflow run.

MLflow assigns its own run IDs, so a tag identifies our run. Another tag stores the number of events
sent. MLflow accepts duplicate points, so the export queries the points that were sent after the
last update of that tag. Needs `seatrial[mlflow]`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlflow.entities import Metric, Param, Run
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.rank_times import rank_figure
from seatrial.process_environment import default_variables

RUN_TAG = "seatrial.run"
"""The run's name, which identifies its MLflow run."""
SENT_TAG = "seatrial.events_sent"
"""Number of events sent."""
FIRST_TAG = "seatrial.first_event"
"""Time of the first event, which distinguishes one log from another."""
_DIRECTORY = {"MLFLOW_ALLOW_FILE_STORE": "true"}
"""Opts in to MLflow's file store, which is in maintenance mode."""
_SIZES = ("global_batch_size", "sequence_length")
BATCH = 900
"""Points per request; MLflow accepts 1,000."""

Points = list[tuple[str, float, int, int]]
"""Name, value, milliseconds since 1970 and step of each point."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The result of an export."""

    run_id: str
    """MLflow's ID of the run."""
    events: int
    """Events in the log that MLflow now has."""
    points: int
    """Points that this export added."""


def export(events: Iterable[Event], run: str, tracking_uri: str, experiment: str) -> Sent:
    """Send the events that MLflow does not have yet."""
    target = MlflowRun(run, tracking_uri, experiment)
    points = target.send(list(events))
    return Sent(target.run_id, target.events, points)


class MlflowRun:
    """One MLflow run. Accepts the events of a log from its start, in any number of batches."""

    def __init__(self, run: str, tracking_uri: str, experiment: str) -> None:
        """Find the MLflow run, or create it."""
        is_directory = "://" not in tracking_uri or tracking_uri.startswith("file:")
        with default_variables(_DIRECTORY if is_directory else {}):
            self._client = MlflowClient(tracking_uri=tracking_uri)
        found = _found(self._client, run, _experiment(self._client, experiment))
        self.run_id: str = found.info.run_id
        self._marked = int(found.data.tags.get(SENT_TAG, "0"))
        self._first = found.data.tags.get(FIRST_TAG, "")
        self._params = set(found.data.params)
        self._known: set[tuple[str, int, int]] | None = None
        self._sizes: dict[str, object] = {}
        self.events = 0

    def send(self, events: Sequence[Event]) -> int:
        """Send the next events of the log. Return the number of new points."""
        if events and self.events == 0:
            self._recognise(events[0])
        added, points, status = 0, Points(), ""
        for event in events:
            self.events += 1
            made = self._points(event)
            status = _status(event) or status
            if self.events <= self._marked:
                continue
            if event.kind is EventKind.START:
                self._log_settings(event)
            if self._known is None:
                self._known = self._there_since(event.time)
            points += [point for point in made if (point[0], *point[2:]) not in self._known]
            if len(points) >= BATCH:
                added += self._flush(points)
        if self.events > self._marked:
            added += self._flush(points)
            if status:
                self._client.update_run(self.run_id, status=status)
        return added

    def _recognise(self, first: Event) -> None:
        """Start from the beginning if this is a different log than the one sent before."""
        mark = f"{first.time:.3f}"
        if self._first != mark:
            self._marked = 0
            self._client.set_tag(self.run_id, SENT_TAG, "0")
            self._client.set_tag(self.run_id, FIRST_TAG, mark)
            self._first = mark

    def _flush(self, points: Points) -> int:
        """Send the points, and only then update the tag."""
        count = len(points)
        for begin in range(0, count, BATCH):
            metrics = [Metric(*point) for point in points[begin : begin + BATCH]]
            self._client.log_batch(self.run_id, metrics=metrics)
        points.clear()
        self._client.set_tag(self.run_id, SENT_TAG, str(self.events))
        self._marked = self.events
        return count

    def _there_since(self, moment: float) -> set[tuple[str, int, int]]:
        """Return the points from a moment on that were sent without an update of the tag."""
        since = _milliseconds(moment)
        names = self._client.get_run(self.run_id).data.metrics
        return {
            (name, point.timestamp, point.step)
            for name in names
            for point in self._client.get_metric_history(self.run_id, name)
            if point.timestamp >= since
        }

    def _log_settings(self, start: Event) -> None:
        """Log the engine's settings. MLflow keeps the first value of a parameter."""
        new = {k: v for k, v in start.values.items() if k not in self._params and k != "began"}
        params = [Param(name, str(value)) for name, value in new.items() if value is not None]
        if params:
            self._client.log_batch(self.run_id, params=params)
            self._params |= set(new)

    def _points(self, event: Event) -> Points:
        values = event.values
        made: dict[str, object] = {}
        match event.kind:
            case EventKind.START:
                self._sizes = {key: values.get(key) for key in _SIZES}
            case EventKind.STEP:
                made = {key: values.get(key) for key in ("loss", "grad_norm", "learning_rate")}
                seconds = made["step_seconds"] = values.get("seconds")
                batch, length = ((self._sizes | values).get(key) for key in _SIZES)
                tokens = batch * length if isinstance(batch, int) and isinstance(length, int) else 0
                if tokens and isinstance(seconds, float) and seconds > 0:
                    made["tokens_per_second"] = tokens / seconds
            case EventKind.EVALUATION:
                made = {f"{values.get('split') or 'validation'}_loss": values.get("loss")}
            case EventKind.SAVE:
                made = {"save_seconds": values.get("seconds")}
            case EventKind.RANKS:
                for key in ("busy", "data", "memory"):
                    figure = rank_figure(values.get(key))
                    made |= {f"rank_{key}_max": figure.most} if figure else {}
            case _:
                pass
        when = _milliseconds(event.time)
        return [
            (name, float(value), when, event.step)
            for name, value in made.items()
            if isinstance(value, (int, float))
        ]


def _status(event: Event) -> str:
    """Return the MLflow status that an event implies; empty if none."""
    if event.kind is EventKind.START:
        return "RUNNING"
    if event.kind is EventKind.EXIT:
        return "FINISHED" if event.values.get("code") == 0 else "FAILED"
    return ""


def _milliseconds(moment: float) -> int:
    return round(moment * 1000)


def _experiment(client: MlflowClient, name: str) -> str:
    """Return the ID of the experiment; create it if it does not exist."""
    found = client.get_experiment_by_name(name)
    if found is not None:
        return str(found.experiment_id)
    try:
        return str(client.create_experiment(name))
    except MlflowException:
        # Another client created it first.
        again = client.get_experiment_by_name(name)
        if again is None:
            raise
        return str(again.experiment_id)


def _found(client: MlflowClient, run: str, experiment: str) -> Run:
    """Find the run by name, or create it. If there are two, return the older one."""
    wanted = f"tags.`{RUN_TAG}` = '{run}'"
    found = client.search_runs([experiment], wanted, order_by=["attributes.start_time ASC"])
    if found:
        return found[0]
    return client.create_run(experiment, run_name=run, tags={RUN_TAG: run})
