# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One layout that the search considers."""

from dataclasses import dataclass

from seatrial.planning.rank_layout import RankLayout
from seatrial.planning.stages import Stage
from seatrial.spec.parallelism import Recompute, Sharding


@dataclass(frozen=True, slots=True)
class Shape:
    """How a model is spread over ranks; the batch and recomputing are not decided yet."""

    layout: RankLayout
    """The parallel degrees."""
    stages: tuple[Stage, ...]
    """Which layers each pipeline stage holds."""
    first_stage_layers: int | None
    """Layers of the first stage when stages are uneven."""
    last_stage_layers: int | None
    """Layers of the last stage when stages are uneven."""
    sequence_parallel: bool
    """Whether norms and dropout are split along the sequence."""
    sharding: Sharding
    """What data-parallel ranks share out."""

    @property
    def degrees(self) -> tuple[int, int, int, int]:
        """What a person tells layouts apart by: tp, pp, cp, ep."""
        layout = self.layout
        return layout.tp_size, layout.pp_size, layout.cp_size, layout.ep_size


@dataclass(frozen=True, slots=True)
class Candidate:
    """A shape with its batch and what is recomputed: all that a spec can leave to the search."""

    shape: Shape
    """How the model is spread over ranks."""
    micro_batch_size: int
    """Sequences that one data-parallel rank processes at a time."""
    global_batch_size: int
    """Sequences per step."""
    recompute: Recompute
    """Activations that are computed again."""
