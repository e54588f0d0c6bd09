# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The watchkeeper: all detectors over one run, telling each anomaly once and its end once.

The worker has one, and writes what it says into the event log; whoever reads a log of a run that
was started without Seatrial has one too, and gets the same.
"""

from dataclasses import dataclass

from seatrial.codes.anomalies import AnomalyCode
from seatrial.findings import Finding, Severity, Where
from seatrial.monitoring.anomalies import (
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
)
"""What is watched for."""


def detectors(expected: Expectations) -> tuple[Detector, ...]:
    """Fresh detectors of every kind."""
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
    )


MOST_OPEN = 16
"""Anomalies of one kind that are told at a time: two nodes of slow ranks; of more, nobody reads."""


@dataclass(slots=True)
class _Episode:
    """An anomaly that goes on."""

    symptom: Symptom
    """As it was told."""
    quiet: int = 0
    """Looks in a row that did not show it."""


class Watchkeeper:
    """Watches one run: events, and if there are any, lines and time."""

    def __init__(self, expected: Expectations | None = None) -> None:
        """Begin before the first event."""
        self._expected = expected or Expectations()
        self._step = 0
        self._detectors: tuple[Detector, ...] = detectors(self._expected)
        self._open: dict[AnomalyCode, dict[str, _Episode]] = {}

    def observe(self, event: Event) -> tuple[Notice, ...]:
        """Take in an event of the run's log; what begins or ends with it."""
        if event.kind is EventKind.FINDING:
            return ()
        self._step = event.step
        notices: list[Notice] = []
        if event.kind is EventKind.START:
            # Other processes, perhaps on other nodes: what was usual before is no measure.
            notices += self._close_all()
            self._detectors = detectors(self._expected)
        for detector in self._detectors:
            notices += self._told(detector.rule, detector.observe(event))
        return tuple(notices)

    def observe_line(self, line: str) -> tuple[Notice, ...]:
        """Take in a line that a process has printed; what begins or ends with it."""
        notices: list[Notice] = []
        for detector in self._detectors:
            look = getattr(detector, "observe_line", None)
            if look is not None:
                notices += self._told(detector.rule, look(line))
        return tuple(notices)

    def pass_time(self, now: float, missing: tuple[int, ...] = ()) -> tuple[Notice, ...]:
        """It is now so late, and no event has come; what begins with it.

        `now` is by the clock of the events: for a file that is read later, the time of its end.
        `missing` are ranks that are known not to answer.
        """
        notices: list[Notice] = []
        for detector in self._detectors:
            look = getattr(detector, "pass_time", None)
            if look is not None:
                notices += self._told(detector.rule, look(now, missing))
        return tuple(notices)

    def _told(self, rule: AnomalyRule, seen: Seen) -> list[Notice]:
        """What of a look is new."""
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
                    notices.append(_ended(rule, episode.symptom, self._step, "It is over."))
        return notices

    def _close_all(self) -> list[Notice]:
        """The processes have begun again, and everything with them."""
        rules = {detector.rule.code: detector.rule for detector in self._detectors}
        notices = [
            _ended(rules[code], episode.symptom, self._step, "The processes started again.")
            for code, episodes in self._open.items()
            for episode in episodes.values()
        ]
        self._open = {}
        return notices


def _began(rule: AnomalyRule, symptom: Symptom, step: int) -> Notice:
    finding = Finding(rule.code, rule.severity, Where(), symptom.said, symptom.value, rule.fix)
    return Notice(finding, AnomalyPhase.BEGAN, step, symptom.since, symptom.about)


def _ended(rule: AnomalyRule, symptom: Symptom, step: int, how: str) -> Notice:
    of = f" of {symptom.about}" if symptom.about else ""
    said = f"{rule.title}{of}, since step {symptom.since:,}: {how[:1].lower()}{how[1:]}"
    finding = Finding(rule.code, Severity.NOTE, Where(), said, "", "")
    return Notice(finding, AnomalyPhase.ENDED, step, symptom.since, symptom.about)
