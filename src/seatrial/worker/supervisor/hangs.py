# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Processes that do not get on: noticed, asked for their last words, and ended.

A process that was stopped does not go on by itself, and is ended at once. Of any other nobody
knows: a file system may be back in half a minute. It is noticed at the limit, and ended at twice
the limit.
"""

from collections.abc import Collection
from pathlib import Path

from seatrial.monitoring.processes import STOPPED, end
from seatrial.worker.supervisor.beats import Beat
from seatrial.worker.supervisor.last_words import collect
from seatrial.worker.supervisor.reports import Reports
from seatrial.worker.supervisor.watch import Silence, Watch

CERTAIN = 2.0
"""Times the limit after which processes are ended that only seem to hang."""


class Hangs:
    """One silence after the other."""

    def __init__(self, watch: Watch, reports: Reports, heartbeats: Path, python: str) -> None:
        """Take who judges, who is told, where processes leave what they tell, and what they run."""
        self._watch = watch
        self._reports = reports
        self._heartbeats = heartbeats
        self._python = python
        self._noticed: Silence | None = None

    def forget(self) -> None:
        """Processes have ended; whatever was noticed of them is over."""
        self._noticed = None

    def look(self, beats: list[Beat], alive: Collection[int], now: float) -> None:
        """Notice a silence, and end it when it is certain."""
        silence = self._watch.look(beats, alive, now)
        if silence is None:
            if self._noticed is not None:
                self._reports.moved(self._noticed, beats)
            self._noticed = None
            return
        here = [beat for beat in beats if beat.process in alive]
        stopped = False
        if self._noticed is None:
            where = self._reports.directory("silent")
            told = collect(where, here, self._heartbeats, now, self._python)
            stopped = bool(STOPPED & set(told.states.values()))
            self._reports.silent(silence, told)
            self._noticed = silence
        if stopped or silence.seconds > CERTAIN * silence.limit:
            for beat in here:
                end(beat.process)
