# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What recomputing computes once more, part by part of a layer.

Norms and activations are small beside products and count as nothing.
"""

from dataclasses import dataclass

from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Recompute, RecomputeModule

LATENT_UP = 0.29
"""Share of latent attention's projections that are up projections: 54.5 of 187 million weights of a
DeepSeek V3 layer (arXiv 2412.19437, section 4.2)."""


@dataclass(slots=True)
class Recomputed:
    """What a layer computes once more, over what its forward pass does: 0 nothing, 1 all of it."""

    attention: float
    """The attention's inner part."""
    exchange: float
    """The way of tokens to experts and back."""
    projections: float
    """The projections around attention; beside the pass that full recomputing adds for all."""
    feed: float
    """The feed-forward part of a layer without experts, likewise."""
    shared: float
    """What every token goes through beside the experts of a layer, likewise."""
    experts: float
    """The experts, likewise."""


def recomputed(workload: Workload) -> Recomputed:
    """What the layers of a workload compute once more."""
    if workload.recompute is not Recompute.SELECTIVE:
        full = float(workload.recompute is Recompute.FULL)
        return Recomputed(full, full, 0.0, 0.0, 0.0, 0.0)
    modules = workload.recompute_modules or {RecomputeModule.CORE_ATTENTION}
    experts = RecomputeModule.MOE in modules
    return Recomputed(
        attention=float(RecomputeModule.CORE_ATTENTION in modules),
        exchange=float(experts),
        projections=LATENT_UP * (RecomputeModule.MLA_UP_PROJ in modules),
        feed=float(RecomputeModule.MLP in modules),
        shared=float(experts or RecomputeModule.SHARED_EXPERTS in modules),
        experts=float(experts),
    )
