# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Whether the processes of a node get on, judged by their heartbeats; nothing is done here."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from seatrial.worker.supervisor.beats import Beat, Phase
from seatrial.worker.supervisor.patience import Patience

MARGIN = 0.9
"""Seconds by which a limit is taken shorter: a look every quarter of a second comes late, and later
on a busy host."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Processes that have not told anything for too long."""

    beats: tuple[Beat, ...]
    """Their last beats."""
    seconds: float
    """How long the first of them has been silent."""
    limit: float
    """How long it may be."""


class Watch:
    """Follows the heartbeats of a node, and learns from them what is usual."""

    def __init__(self, patience: Patience | None = None) -> None:
        """Take what is known of the run, or begin to learn."""
        self.patience = patience or Patience()
        self._last: dict[int, Beat] = {}

    def look(self, beats: Iterable[Beat], alive: Collection[int], now: float) -> Silence | None:
        """Learn from new beats; what is too silent among processes that are alive, if any.

        A rank that finishes a save makes the others wait for it inside a step, so nobody is late
        while somebody is within the patience of something slow.
        """
        here = [beat for beat in beats if beat.process in alive]
        for beat in here:
            self._learn(beat)
        late = [beat for beat in here if self._is_late(beat, now)]
        slow = [
            beat for beat in here if beat.phase is not Phase.STEPS and not self._is_late(beat, now)
        ]
        if not late or slow:
            return None
        first = min(late, key=lambda beat: beat.since)
        return Silence(tuple(late), now - first.since, self.patience.limit(first.phase))

    def _is_late(self, beat: Beat, now: float) -> bool:
        return now - beat.since > self.patience.limit(beat.phase) - MARGIN

    def _learn(self, beat: Beat) -> None:
        last = self._last.get(beat.rank)
        self._last[beat.rank] = beat
        if last is None or last.process != beat.process:
            return
        if beat.step > last.step and beat.seconds > 0:
            self.patience.learn_step(beat.seconds)
        if beat.phase is not last.phase and last.phase is not Phase.STEPS:
            self.patience.learn_phase(last.phase, beat.since - last.since)
