# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The layout for a host without GPUs: legal, and divided as little as it can be."""

from seatrial.planning.search.candidate import Candidate
from seatrial.planning.search.find import ANY_BATCH, BATCH_TOLERANCE, off_target
from seatrial.planning.search.problem import Problem
from seatrial.planning.search.space import batches, shapes
from seatrial.spec.engine import EngineName
from seatrial.spec.parallelism import Recompute, Sharding


def least_divided(problem: Problem) -> Candidate | None:
    """The legal layout with the fewest ranks to a model copy; nothing when none is legal.

    Memory and time of a host without GPUs are not modelled, so nothing else could decide.
    """
    sharding, recompute = problem.given.sharding, problem.given.recompute
    if sharding is Sharding.AUTO:
        foundry = problem.engine is EngineName.LLM_FOUNDRY
        sharding = Sharding.FSDP if foundry else Sharding.OPTIMIZER
    if recompute is Recompute.AUTO:
        recompute = Recompute.NONE
    found = [
        Candidate(shape, micro, total, recompute)
        for shape in shapes(problem, sharding)
        for micro, total in batches(problem, shape.layout, ANY_BATCH)
    ]
    off = [off_target(problem, candidate.global_batch_size) for candidate in found]
    # Near the target nothing but the division counts; else the batch that is nearest to it.
    allowed = max(BATCH_TOLERANCE, min(off, default=0.0))
    near = (candidate for candidate, far in zip(found, off, strict=True) if far <= allowed)
    return min(near, key=_divided, default=None)


def _divided(candidate: Candidate) -> tuple[int, ...]:
    """How much a layout divides; what comes later decides between equals."""
    layout = candidate.shape.layout
    copies = layout.tp_size * layout.pp_size * layout.cp_size
    return copies, layout.pp_size, layout.cp_size, layout.vp_size, candidate.micro_batch_size
