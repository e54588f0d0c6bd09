# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How far each rank is behind those that do the same work."""

import math
from collections import defaultdict
from collections.abc import Sequence


def lags(seconds: Sequence[float], stages: Sequence[int]) -> list[float]:
    """For each rank, by what share it is slower than the median of the others of its stage.

    Pipeline stages are apart: in a healthy pipeline the first is busy longest, for its backward
    passes come last. A rank that is alone in its stage has nobody to be compared with.
    """
    groups: dict[int, list[int]] = defaultdict(list)
    for rank, stage in enumerate(stages):
        groups[stage].append(rank)
    found = [math.nan] * len(seconds)
    for ranks in groups.values():
        ordered = sorted(ranks, key=lambda rank: seconds[rank])
        values = [seconds[rank] for rank in ordered]
        for place, rank in enumerate(ordered):
            usual = _median_without(place, values)
            if usual > 0:
                found[rank] = seconds[rank] / usual - 1
    return found


def _median_without(place: int, ordered: Sequence[float]) -> float:
    """The median of ordered values without the one at that place; 0 where there is no other."""
    left = len(ordered) - 1
    if left == 0:
        return 0.0

    def value(index: int) -> float:
        return ordered[index if index < place else index + 1]

    return value(left // 2) if left % 2 else (value(left // 2 - 1) + value(left // 2)) / 2
