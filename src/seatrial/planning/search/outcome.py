# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a search found: the layouts that fit, ranked, and those that lack memory."""

from dataclasses import dataclass

from seatrial.planning.memory.parts import Memory
from seatrial.planning.search.candidate import Candidate
from seatrial.planning.timing.parts import StepTime
from seatrial.planning.workload import Workload


@dataclass(frozen=True, slots=True)
class Priced:
    """A candidate with its memory and its time."""

    candidate: Candidate
    """The layout."""
    workload: Workload
    """The same as the models of memory and time take it."""
    memory: Memory
    """Memory of its stages."""
    time: StepTime
    """Time of a step."""

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
class Outcome:
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
