# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The result of a search: ranked layouts that fit, and layouts that do not fit."""

from dataclasses import dataclass

from seatrial.planning.layout import Layout
from seatrial.planning.memory.breakdown import Memory
from seatrial.planning.options import FLEX_DISPATCHERS
from seatrial.planning.stages import Stage
from seatrial.planning.timing.breakdown import StepTime
from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Recompute, Sharding


@dataclass(frozen=True, slots=True)
class Shape:
    """The distribution of a model over ranks, without batch and recomputation."""

    layout: Layout
    """The parallel degrees."""
    stages: tuple[Stage, ...]
    """The layers of each pipeline stage."""
    first_stage_layers: int | None
    """Layers in the first stage if stages are uneven."""
    last_stage_layers: int | None
    """Layers in the last stage if stages are uneven."""
    sequence_parallel: bool
    """True if norms and dropout are split along the sequence."""
    sharding: Sharding
    """Which state is sharded over the data-parallel ranks."""

    @property
    def degrees(self) -> tuple[int, int, int, int]:
        """The degrees by which a user identifies a layout: tp, pp, cp, ep."""
        layout = self.layout
        return layout.tp_size, layout.pp_size, layout.cp_size, layout.ep_size


@dataclass(frozen=True, slots=True)
class Candidate:
    """A shape with batch and recomputation: everything that a spec can leave to the search."""

    shape: Shape
    """The distribution of the model over ranks."""
    micro_batch_size: int
    """Sequences that one data-parallel rank processes at a time."""
    global_batch_size: int
    """Sequences per step."""
    recompute: Recompute
    """Which activations are recomputed."""


@dataclass(frozen=True, slots=True)
class Priced:
    """A candidate with its memory and time."""

    candidate: Candidate
    workload: Workload
    """The candidate as input of the memory and time models."""
    memory: Memory
    """Memory of the stages."""
    time: StepTime

    @property
    def rate(self) -> float:
        """Tokens per second per GPU."""
        ranks = self.candidate.shape.layout.world_size
        return self.workload.tokens_per_step / (self.time.total * ranks)

    @property
    def sends_copies_across(self) -> bool:
        """True if each copy of a token can cross nodes on its way to an expert."""
        options, layout = self.workload.options, self.candidate.shape.layout
        hardware = self.workload.hardware
        domain = max(hardware.link_domain_gpus, hardware.gpus_per_node)
        return (
            options is not None
            and options.token_dispatcher not in FLEX_DISPATCHERS
            and layout.ep_size > 1
            and layout.ep_size * layout.etp_size > domain
        )


@dataclass(frozen=True, slots=True)
class Lacking:
    """A candidate that does not fit."""

    candidate: Candidate
    """The variant of the layout that needs the least memory."""
    memory: Memory
    """Memory of the stages."""


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The result of a search."""

    ranked: tuple[Priced, ...]
    """The best layout of each combination of tp, pp, cp and ep, the fastest first.

    A slightly slower one is first if its experts are inside an NVLink domain.
    """
    lacking: tuple[Lacking, ...]
    """For each combination that does not fit, the layout with the least memory; nearest first."""
    risky: bool
    """True if no layout certainly fits, but the ranked layouts might fit."""
    legal: int
    """Number of valid layouts."""
    priced: int
    """Number of layouts whose time was estimated; the others were dominated or did not fit."""
    instead: Priced | Lacking | None = None
    """The best layout with the other sharding, if memory decided between the two.

    `Priced` if it fits or might fit, otherwise `Lacking`.
    """

    @property
    def best(self) -> Priced | None:
        """The layout that a plan gets."""
        return self.ranked[0] if self.ranked else None
