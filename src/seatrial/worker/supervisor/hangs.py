# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Processes that do not get on: noticed, asked for their last words, and ended.

A process that was stopped does not go on by itself, and is ended at once. Of any other nobody
knows: a file system may be back in half a minute. It is noticed at the limit, and ended at twice
the limit, and not before a minute: a restart costs more.
"""

from collections.abc import Mapping
from pathlib import Path

from seatrial.monitoring.processes import STOPPED, end
from seatrial.worker.supervisor.crash_report import collect
from seatrial.worker.supervisor.heartbeats import Beat
from seatrial.worker.supervisor.reports import Reports
from seatrial.worker.supervisor.timeouts import MARGIN, HeartbeatWatch, Silence

CERTAIN = 2.0
"""Times the limit after which processes are ended that only seem to hang."""
CERTAIN_FLOOR = 60.0
"""And seconds."""


class Hangs:
    """One silence after the other."""

    def __init__(
        self, watch: HeartbeatWatch, reports: Reports, heartbeats: Path, python: str
    ) -> None:
        """Take who judges, who is told, where processes leave what they tell, and what they run."""
        self._watch = watch
        self._reports = reports
        self._heartbeats = heartbeats
        self._python = python
        self._noticed: Silence | None = None
        self._stopped: dict[int, float] = {}

    def forget(self) -> None:
        """Processes have ended; whatever was noticed of them is over."""
        self._noticed = None

    def look(self, beats: list[Beat], states: Mapping[int, str], now: float) -> None:
        """Notice a silence, and end it when it is certain.

        Args:
            beats: What the processes last told.
            states: What those that are alive do, as letters of the kernel.
            now: The time, by the clock of the beats.
        """
        here = [beat for beat in beats if beat.process in states]
        silence = self._watch.look(beats, states, now) or self._long_stopped(here, states, now)
        if silence is None:
            # Those that were ended do not go on.
            if self._noticed is not None and any(b.process in states for b in self._noticed.beats):
                self._reports.moved(self._noticed, beats)
            self._noticed = None
            return
        stopped = [beat.rank for beat in here if states[beat.process] in STOPPED]
        if self._noticed is None:
            self._noticed = silence
            where = self._reports.directory("silent")
            # Before the stacks, which take a while: whoever waits for the news has it now.
            self._reports.silent(silence, stopped, where)
            self._reports.collected(collect(where, here, self._heartbeats, now, self._python))
        if stopped or silence.seconds > max(CERTAIN_FLOOR, CERTAIN * silence.limit):
            for beat in here:
                end(beat.process)

    def _long_stopped(
        self, here: list[Beat], states: Mapping[int, str], now: float
    ) -> Silence | None:
        """Processes that somebody has stopped, also in a save or a start, whose patience is long.

        Not at once: whoever looks into a process stops it for a moment.
        """
        stopped = [beat for beat in here if states[beat.process] in STOPPED]
        self._stopped = {b.process: self._stopped.get(b.process, now) for b in stopped}
        limit = self._watch.patience.stopped_limit
        late = [b for b in stopped if now - self._stopped[b.process] > limit - MARGIN]
        if not late:
            return None
        first = min(self._stopped[beat.process] for beat in late)
        return Silence(tuple(late), now - first, limit)
