# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which ranks of a full-size run the engine executes to match their communications.

Every pipeline stage has its own schedule, so one rank of each stage is executed. On the first, a
middle and the last stage, so are the first, a middle and the last member of its group along every
other axis, and the rank that is last along all axes: a condition on one coordinate shows between
them. A condition on two coordinates that none of these ranks meets does not show.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache

from seatrial.planning.layout import DENSE_AXES, EXPERT_AXES, Axis, Layout

INSIDE = ((DENSE_AXES, (Axis.TP, Axis.CP, Axis.DP)), (EXPERT_AXES, (Axis.ETP, Axis.EP, Axis.EDP)))
"""The axes within a stage, with their grids."""


def first_middle_last(size: int) -> tuple[int, ...]:
    """Return the first, a middle and the last of `size` positions, each once."""
    return tuple(dict.fromkeys((0, size // 2, size - 1)))


def ranks_to_match(layout: Layout) -> tuple[int, ...]:
    """Return the ranks to execute, in order."""
    chosen = {layout.rank({Axis.PP: stage}) for stage in range(layout.pp_size)}
    for stage in first_middle_last(layout.pp_size):
        for grid, axes in INSIDE:
            if grid is EXPERT_AXES and layout.ep_size == 1:
                continue
            chosen |= {
                layout.rank({Axis.PP: stage, axis: position}, grid)
                for axis in axes
                for position in first_middle_last(layout.size(axis))
            }
        chosen.add(
            layout.rank(
                {axis: layout.size(axis) - 1 for axis in DENSE_AXES[:-1]} | {Axis.PP: stage}
            )
        )
    return tuple(sorted(chosen))


def representative(layout: Layout, executed: Iterable[int]) -> Callable[[int], int]:
    """Return a function from a rank to the executed rank that is most similar to it.

    It is on the same stage, and is first, last or in between on as many of the same axes as
    possible. The function raises ValueError if no rank of the stage was executed.
    """
    stages: dict[int, list[int]] = {}
    for rank in sorted(executed):
        stages.setdefault(layout.coordinates(rank)[Axis.PP], []).append(rank)

    @cache
    def represent(rank: int) -> int:
        stage = layout.coordinates(rank)[Axis.PP]
        if stage not in stages:
            raise ValueError(f"no rank of stage {stage} was executed")
        own = list(_positions(layout, rank))

        def alike(other: int) -> int:
            return sum(a == b for a, b in zip(own, _positions(layout, other), strict=True))

        return max(stages[stage], key=lambda other: (other == rank, alike(other), -other))

    return represent


def _positions(layout: Layout, rank: int) -> Iterator[str]:
    """Return for every axis whether a rank is first, last or in between."""
    for grid, axes in INSIDE:
        place = layout.coordinates(rank, grid)
        for axis in axes:
            if place[axis] == 0:
                yield "first"
            else:
                yield "last" if place[axis] == layout.size(axis) - 1 else "middle"
