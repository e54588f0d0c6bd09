# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Detect hung processes, collect a crash report, and kill them.

A stopped process does not continue by itself, so it is killed immediately. Any other process may
recover: a file system may be back in half a minute. Such a process is reported at the timeout and
killed at twice the timeout, but not within the first minute, because a restart costs more.
"""

from collections.abc import Mapping
from pathlib import Path

from seatrial.monitoring.processes import STOPPED, end
from seatrial.worker.supervisor.crash_report import collect
from seatrial.worker.supervisor.heartbeats import Beat
from seatrial.worker.supervisor.reports import Reports
from seatrial.worker.supervisor.timeouts import MARGIN, HeartbeatWatch, Silence

CERTAIN = 2.0
"""Multiple of the timeout after which a process that seems to hang is killed."""
CERTAIN_FLOOR = 60.0
"""Minimum time in seconds before such a process is killed."""


class Hangs:
    """Detects hangs, one at a time."""

    def __init__(
        self, watch: HeartbeatWatch, reports: Reports, heartbeats: Path, python: str
    ) -> None:
        self._watch = watch
        self._reports = reports
        self._heartbeats = heartbeats
        self._python = python
        self._noticed: Silence | None = None
        self._stopped: dict[int, float] = {}

    def forget(self) -> None:
        """Forget the current hang, because the processes have exited."""
        self._noticed = None

    def look(self, beats: list[Beat], states: Mapping[int, str], now: float) -> None:
        """Report a hang, and kill the processes when the hang is certain.

        Args:
            beats: The last heartbeats.
            states: The kernel's state letters for the live processes.
            now: The time on the clock that heartbeats use.
        """
        here = [beat for beat in beats if beat.process in states]
        silence = self._watch.look(beats, states, now) or self._long_stopped(here, states, now)
        if silence is None:
            # Killed processes did not recover.
            if self._noticed is not None and any(b.process in states for b in self._noticed.beats):
                self._reports.moved(self._noticed, beats)
            self._noticed = None
            return
        stopped = [beat.rank for beat in here if states[beat.process] in STOPPED]
        if self._noticed is None:
            self._noticed = silence
            where = self._reports.directory("silent")
            # Report first, because collecting the stacks takes a while.
            self._reports.silent(silence, stopped, where)
            self._reports.collected(collect(where, here, self._heartbeats, now, self._python))
        if stopped or silence.seconds > max(CERTAIN_FLOOR, CERTAIN * silence.limit):
            for beat in here:
                end(beat.process)

    def _long_stopped(
        self, here: list[Beat], states: Mapping[int, str], now: float
    ) -> Silence | None:
        """Find stopped processes, also in phases with long timeouts, such as a save or a start.

        Wait for the step timeout first: a debugger stops a process for a moment.
        """
        stopped = [beat for beat in here if states[beat.process] in STOPPED]
        self._stopped = {b.process: self._stopped.get(b.process, now) for b in stopped}
        limit = self._watch.patience.stopped_limit
        late = [b for b in stopped if now - self._stopped[b.process] > limit - MARGIN]
        if not late:
            return None
        first = min(self._stopped[beat.process] for beat in late)
        return Silence(tuple(late), now - first, limit)
