# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The part of the model on each rank: Megatron's grids, in Megatron's order (tp-cp-ep-dp-pp).

Attention and dense layers use the grid tp x cp x dp x pp. Expert layers use a second grid
etp x ep x edp x pp over the same ranks (`megatron/core/parallel_state.py`, RankGenerator).
The first axis changes fastest from rank to rank.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product
from math import prod


class Axis(StrEnum):
    """An axis of the grids."""

    TP = "tp"
    """Tensor parallel."""
    CP = "cp"
    """Context parallel."""
    DP = "dp"
    """Data parallel."""
    PP = "pp"
    """Pipeline parallel."""
    ETP = "etp"
    """Tensor parallel inside an expert."""
    EP = "ep"
    """Expert parallel."""
    EDP = "edp"
    """Data parallel for the experts."""


DENSE_AXES = (Axis.TP, Axis.CP, Axis.DP, Axis.PP)
"""The grid of attention and dense layers, fastest axis first."""
EXPERT_AXES = (Axis.ETP, Axis.EP, Axis.EDP, Axis.PP)
"""The grid of expert layers, fastest axis first."""


DEGREES = ("tp", "pp", "vp", "cp", "ep", "etp", "dp")
"""The parallel degrees in the order in which every text lists them."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The sizes of both grids, and the number of chunks per pipeline stage."""

    tp_size: int = 1
    """Ranks that split the matrices of each layer."""
    cp_size: int = 1
    """Ranks that split each sequence."""
    dp_size: int = 1
    """Model replicas, which read different data."""
    pp_size: int = 1
    """Pipeline stages."""
    vp_size: int = 1
    """Chunks of layers per pipeline stage."""
    ep_size: int = 1
    """Ranks that split the experts."""
    etp_size: int = 1
    """Ranks that split the matrices of one expert."""

    def __str__(self) -> str:
        """Return `tp 2 · dp 4`, without the degrees that are 1."""
        return self.words(*(name for name in DEGREES if name != "etp")) or "dp 1"

    def words(self, *names: str, always: tuple[str, ...] = ()) -> str:
        """Return the named degrees in their usual order: those above 1, and those in `always`."""
        sizes = {name: getattr(self, f"{name}_size") for name in DEGREES if name in names}
        shown = (f"{name} {n:,}" for name, n in sizes.items() if n > 1 or name in always)
        return " · ".join(shown)

    def spread_over(self, world_size: int) -> "Layout":
        """Return the layout with as many model replicas as fit; remaining ranks are idle."""
        return replace(self, dp_size=world_size // self.model_size)

    @property
    def model_size(self) -> int:
        """Ranks per model replica."""
        return self.tp_size * self.cp_size * self.pp_size

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self.tp_size * self.cp_size * self.dp_size * self.pp_size

    @property
    def edp_size(self) -> int:
        """Replicas of each expert, which read different data."""
        return self.world_size // (self.etp_size * self.ep_size * self.pp_size)

    def size(self, axis: Axis) -> int:
        """Return the size along an axis."""
        return int(getattr(self, f"{axis}_size"))

    def coordinates(self, rank: int, axes: tuple[Axis, ...] = DENSE_AXES) -> dict[Axis, int]:
        """Return the position of a rank in a grid."""
        if not 0 <= rank < self.world_size:
            raise ValueError(f"rank {rank} is not below the world size {self.world_size}")
        place = {}
        for axis in axes:
            rank, place[axis] = divmod(rank, self.size(axis))
        return place

    def rank(self, place: dict[Axis, int], axes: tuple[Axis, ...] = DENSE_AXES) -> int:
        """Return the rank at a position in a grid; omitted axes are at 0."""
        rank, stride = 0, 1
        for axis in axes:
            rank += place.get(axis, 0) * stride
            stride *= self.size(axis)
        return rank

    def groups(self, *together: Axis) -> Iterator[tuple[int, ...]]:
        """Return the groups of ranks that differ only along these axes, in Megatron's order."""
        grid = EXPERT_AXES if {Axis.ETP, Axis.EP, Axis.EDP} & set(together) else DENSE_AXES
        inside = [axis for axis in grid if axis in together]
        across = [axis for axis in grid if axis not in together]
        for fixed in _places(self, across):
            yield tuple(self.rank(fixed | moving, grid) for moving in _places(self, inside))

    def group_count(self, *together: Axis) -> int:
        """Return the number of groups that `groups` returns."""
        return self.world_size // prod(self.size(axis) for axis in together)


def _places(layout: Layout, axes: list[Axis]) -> Iterator[dict[Axis, int]]:
    """Return every combination of positions along the axes; the first axis changes fastest."""
    for reverse in product(*(range(layout.size(axis)) for axis in reversed(axes))):
        yield dict(zip(axes, reversed(reverse), strict=True))
