# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How far the fitted rows go, and by how much a workload goes beyond them."""

from dataclasses import dataclass
from math import log2

from seatrial.planning.workload import Workload


@dataclass(frozen=True, slots=True)
class Excess:
    """One way in which a workload goes beyond the fitted rows."""

    words: str
    """What was asked for and what was fitted, such as `16,384 GPUs, fitted up to 8,192`."""
    doublings: float
    """How often the largest fitted value is doubled to reach the one asked for."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The largest values among the fitted rows."""

    gpus: int
    """GPUs of a run."""
    tp_size: int
    """Ranks that share a layer."""
    pp_size: int
    """Pipeline stages."""
    cp_size: int
    """Ranks that share a sequence."""
    ep_size: int
    """Ranks that share the experts of a layer."""
    sequence_length: int
    """Tokens of a sequence."""

    def excess(self, workload: Workload) -> tuple[Excess, ...]:
        """Where a workload goes beyond; nothing where it is within."""
        layout = workload.layout
        asked = (
            (f"{layout.world_size:,} GPUs", layout.world_size, self.gpus),
            (f"tp {layout.tp_size}", layout.tp_size, self.tp_size),
            (f"pp {layout.pp_size}", layout.pp_size, self.pp_size),
            (f"cp {layout.cp_size}", layout.cp_size, self.cp_size),
            (f"ep {layout.ep_size}", layout.ep_size, self.ep_size),
            (
                f"sequences of {workload.sequence_length:,} tokens",
                workload.sequence_length,
                self.sequence_length,
            ),
        )
        return tuple(
            Excess(f"{words}, fitted up to {largest:,}", log2(value / largest))
            for words, value, largest in asked
            if value > largest
        )


def reach_of(workloads: list[Workload]) -> Reach:
    """The largest values among some workloads."""
    return Reach(
        gpus=max(work.layout.world_size for work in workloads),
        tp_size=max(work.layout.tp_size for work in workloads),
        pp_size=max(work.layout.pp_size for work in workloads),
        cp_size=max(work.layout.cp_size for work in workloads),
        ep_size=max(work.layout.ep_size for work in workloads),
        sequence_length=max(work.sequence_length for work in workloads),
    )
