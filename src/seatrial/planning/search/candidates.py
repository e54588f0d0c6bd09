# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a search found: the layouts that fit, ranked, and those that lack memory."""

from dataclasses import dataclass

from seatrial.planning.layout import Layout
from seatrial.planning.memory.breakdown import Memory
from seatrial.planning.stages import Stage
from seatrial.planning.timing.breakdown import StepTime
from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Recompute, Sharding


@dataclass(frozen=True, slots=True)
class Shape:
    """How a model is spread over ranks; the batch and recomputing are not decided yet."""

    layout: Layout
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


@dataclass(frozen=True, slots=True)
class Priced:
    """A candidate with its memory and its time."""

    candidate: Candidate
    workload: Workload
    """The same as the models of memory and time take it."""
    memory: Memory
    """Memory of its stages."""
    time: StepTime

    @property
    def rate(self) -> float:
        """Tokens per second and GPU."""
        ranks = self.candidate.shape.layout.world_size
        return self.workload.tokens_per_step / (self.time.total * ranks)


@dataclass(frozen=True, slots=True)
class Lacking:
    """A candidate that does not fit."""

    candidate: Candidate
    """The layout, in the form that needs least memory."""
    memory: Memory
    """Memory of its stages."""


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The answer of a search."""

    ranked: tuple[Priced, ...]
    """The best layout of each combination of tp, pp, cp and ep, the fastest first."""
    lacking: tuple[Lacking, ...]
    """Of each combination of which nothing fits, what needs least memory; the nearest first."""
    risky: bool
    """Whether nothing fits for certain, and the ranked ones might."""
    legal: int
    """Legal layouts that were looked at."""
    priced: int
    """Layouts whose time was computed; the others were dominated or did not fit."""
    instead: Priced | Lacking | None = None
    """Where memory decided what is shared out: the best layout of the other way to share out.

    Priced when it fits or might, else what it lacks.
    """

    @property
    def best(self) -> Priced | None:
        """The fastest layout that fits."""
        return self.ranked[0] if self.ranked else None
