# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The block of timers in a Megatron-LM log: a headline, then a line for each timer.

From megatron/core/timers.py of the tags core_v0.12.0 to core_v0.19.0, whose option
`--timing-log-option` prints the most, the least and the most, or the time of every rank.
"""

import re
from typing import Any

from seatrial.monitoring.rank_times import sum_up_named

FOREIGN = 10_000
"""Lines of other processes that may come between two lines of a block."""

_TIMER = re.compile(
    r" +(?P<name>[^\s.][^\s:]{0,80}) \.*: "
    r"(?:\((?P<least>[0-9.]{1,20}), (?P<most>[0-9.]{1,20})\)|(?P<only>[0-9.]{1,20}))\s*$"
)
_OF_ALL = re.compile(r" +(?P<name>[^\s:][^\s:]{0,80}):\s*$")
_RANK = re.compile(r" +rank +(?P<rank>[0-9]{1,7}): (?P<time>[0-9.]{1,20})\s*$")


class TimerBlock:
    """Collects the lines of one block."""

    def __init__(self, source: str, step: int, time: float) -> None:
        """Begin with the headline of a process."""
        self.source = source
        self.step = step
        self.time = time
        self.foreign = 0
        self._spread: dict[str, list[float]] = {}
        self._ranks: dict[str, list[tuple[int, float]]] = {}
        self._name = ""

    def takes(self, text: str) -> bool:
        """Whether a line belongs to the block; if so, it is taken in."""
        try:
            return self._takes(text)
        except ValueError:
            return False

    def _takes(self, text: str) -> bool:
        found = _TIMER.match(text)
        if found is not None:
            most = _seconds(found["most"] or found["only"])
            # Where only the most is printed, nothing is known of the least.
            least = [_seconds(found["least"])] if found["least"] else []
            self._spread[found["name"]] = [*least, most]
            return True
        found = _OF_ALL.match(text)
        if found is not None:
            self._name = found["name"]
            return True
        found = _RANK.match(text)
        if found is None or not self._name:
            return False
        pair = (int(found["rank"]), _seconds(found["time"]))
        self._ranks.setdefault(self._name, []).append(pair)
        return True

    def values(self) -> dict[str, Any]:
        """What an event tells of the block; empty where it has no timers."""
        timers: dict[str, Any] = dict(self._spread)
        ranks = {name: sum_up_named(pairs) for name, pairs in self._ranks.items()}
        timers |= {name: [figure.least, figure.most] for name, figure in ranks.items()}
        told = {"timers": timers} if timers else {}
        if ranks:
            told["ranks"] = {name: figure.to_dict() for name, figure in ranks.items()}
        return told


def _seconds(milliseconds: str) -> float:
    """Seconds, rounded to what the engine prints."""
    return round(float(milliseconds) / 1000, 7)
