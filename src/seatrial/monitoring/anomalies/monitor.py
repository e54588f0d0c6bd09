# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The anomaly monitor: runs all detectors over one run, and reports each anomaly and its end once.

The worker runs a monitor and writes its notices to the event log. If a run was started without
Seatrial, the readers of its log run a monitor and get the same notices.
"""

from dataclasses import dataclass

from seatrial.codes.anomalies import AnomalyCode
from seatrial.findings import Finding, Severity, Where
from seatrial.monitoring.anomalies import (
    gpu_errors,
    network_fallback,
    not_a_number,
    slow_data,
    slow_save,
    spikes,
    stalled,
    straggler,
    throughput_drop,
)
from seatrial.monitoring.anomalies.detector import (
    AnomalyPhase,
    AnomalyRule,
    Detector,
    Expectations,
    Notice,
    Seen,
    Symptom,
)
from seatrial.monitoring.event_log import Event, EventKind

RULES: tuple[AnomalyRule, ...] = (
    not_a_number.RULE,
    spikes.LOSS_RULE,
    spikes.GRADIENT_RULE,
    throughput_drop.RULE,
    straggler.RULE,
    stalled.RULE,
    network_fallback.RULE,
    slow_save.RULE,
    slow_data.RULE,
    gpu_errors.ERROR_RULE,
    gpu_errors.THROTTLE_RULE,
)
"""All anomalies that the monitor detects."""


def detectors(expected: Expectations) -> tuple[Detector, ...]:
    """Return new detectors of every kind."""
    return (
        not_a_number.NotANumber(),
        spikes.LossSpike(),
        spikes.GradientExplosion(expected),
        throughput_drop.ThroughputDrop(),
        straggler.Straggler(),
        stalled.Stalled(expected),
        network_fallback.NetworkFallback(expected),
        slow_save.SlowSave(expected),
        slow_data.SlowData(),
        gpu_errors.GpuErrors(),
        gpu_errors.GpuThrottling(),
    )


MOST_OPEN = 16
"""Maximum number of open anomalies of one kind: enough for all ranks of two slow nodes."""


@dataclass(slots=True)
class _Episode:
    """An open anomaly."""

    symptom: Symptom
    """The symptom that was reported."""
    quiet: int = 0
    """Consecutive observations without it."""


class AnomalyMonitor:
    """Monitors one run: its events and, if available, its output and the time."""

    def __init__(self, expected: Expectations | None = None) -> None:
        self._expected = expected or Expectations()
        self._step = 0
        self._detectors: tuple[Detector, ...] = detectors(self._expected)
        self._open: dict[AnomalyCode, dict[str, _Episode]] = {}

    def observe(self, event: Event) -> tuple[Notice, ...]:
        """Process an event in the run's log. Return the anomalies that start or end with it."""
        if event.kind is EventKind.FINDING:
            return ()
        self._step = event.step
        notices: list[Notice] = []
        if event.kind is EventKind.START:
            # New processes, perhaps on different nodes: earlier values are not a valid baseline.
            notices += self._close_all()
            self._detectors = detectors(self._expected)
        for detector in self._detectors:
            notices += self._changes(detector.rule, detector.observe(event))
        return tuple(notices)

    def observe_line(self, line: str) -> tuple[Notice, ...]:
        """Process a line of output. Return the anomalies that start or end with it."""
        notices: list[Notice] = []
        for detector in self._detectors:
            look = getattr(detector, "observe_line", None)
            if look is not None:
                notices += self._changes(detector.rule, look(line))
        return tuple(notices)

    def pass_time(self, now: float, missing: tuple[int, ...] = ()) -> tuple[Notice, ...]:
        """Process the passing of time without an event. Return the anomalies that start.

        `now` uses the clock of the events; for a file that is read later, it is the file's end.
        `missing` are ranks that are known not to respond.
        """
        notices: list[Notice] = []
        for detector in self._detectors:
            look = getattr(detector, "pass_time", None)
            if look is not None:
                notices += self._changes(detector.rule, look(now, missing))
        return tuple(notices)

    def _changes(self, rule: AnomalyRule, seen: Seen) -> list[Notice]:
        """Return the notices for the changes since the last observation."""
        if seen is None:
            return []
        episodes = self._open.setdefault(rule.code, {})
        shown = {symptom.about for symptom in seen}
        notices = []
        for symptom in seen:
            episode = episodes.get(symptom.about)
            if episode is not None:
                episode.quiet = 0
            elif len(episodes) < MOST_OPEN:
                episodes[symptom.about] = _Episode(symptom)
                notices.append(_began(rule, symptom, self._step))
        for about, episode in list(episodes.items()):
            if about not in shown:
                episode.quiet += 1
                if episode.quiet >= rule.calm:
                    del episodes[about]
                    notices.append(_ended(rule, episode.symptom, self._step, "resolved."))
        return notices

    def _close_all(self) -> list[Notice]:
        """End all open anomalies, because the processes restarted."""
        rules = {detector.rule.code: detector.rule for detector in self._detectors}
        notices = [
            _ended(rules[code], episode.symptom, self._step, "closed: the processes restarted.")
            for code, episodes in self._open.items()
            for episode in episodes.values()
        ]
        self._open = {}
        return notices


def _began(rule: AnomalyRule, symptom: Symptom, step: int) -> Notice:
    finding = Finding(rule.code, rule.severity, Where(), symptom.message, symptom.value, rule.fix)
    return Notice(finding, AnomalyPhase.BEGAN, step, symptom.since, symptom.about)


def _ended(rule: AnomalyRule, symptom: Symptom, step: int, how: str) -> Notice:
    about = f" ({symptom.about})" if symptom.about else ""
    message = f"{rule.title}{about} since step {symptom.since:,}: {how}"
    finding = Finding(rule.code, Severity.NOTE, Where(), message, "", "")
    return Notice(finding, AnomalyPhase.ENDED, step, symptom.since, symptom.about)
