# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What is said of a global batch that is far from the one it should come near to."""

from dataclasses import replace

from seatrial.findings import Finding, Severity
from seatrial.planning.codes import PlanCode
from seatrial.planning.search.find import BATCH_TOLERANCE, off_target, shardings
from seatrial.planning.search.inverse import fits
from seatrial.planning.search.planner import PlannedRun
from seatrial.planning.search.problem import Problem
from seatrial.planning.search.space import batches, shapes
from seatrial.spec.loader import LoadedSpec
from seatrial.spec.parallelism import ParallelismSpec
from seatrial.spec.scalars import AUTO

FEWER = 8
"""How many fewer nodes are tried for a batch near the target."""


def far_batch(loaded: LoadedSpec, run: PlannedRun) -> list[Finding]:
    """A finding about an `auto` global batch that no layout brings near its target."""
    problem, batch = run.problem, run.plan.batch.global_batch_size
    if problem.global_batch_size != AUTO or off_target(problem, batch) <= BATCH_TOLERANCE:
        return []
    return [
        Finding(
            PlanCode.FAR_BATCH,
            Severity.WARNING,
            loaded.where("training.global_batch_size"),
            f"no layout that fits {problem.world_size:,} ranks has a global batch near "
            f"{problem.target_batch:,} sequences; the nearest is {batch:,}, which may train "
            "differently.",
            f"{batch:,}",
            f"{_nearer(problem)} Or accept it: training.global_batch_size={batch}.",
        )
    ]


def _nearer(problem: Problem) -> str:
    """What would bring the batch near its target."""
    free = replace(
        problem, given=ParallelismSpec(etp_size=problem.given.etp_size), micro_batch_size=AUTO
    )
    if _near(free):
        return "Leave parallelism and micro_batch_size to the planner (auto): then it comes near."
    nodes = problem.world_size // problem.per_node
    for fewer in range(nodes - 1, max(0, nodes - 1 - FEWER), -1):
        smaller = replace(problem, world_size=fewer * problem.per_node)
        if _near(smaller):
            return f"Use {fewer:,} nodes, on which it comes near."
    return "Use fewer nodes, or a number of them with more divisors."


def _near(problem: Problem) -> bool:
    """Whether a legal layout with a batch near the target fits."""
    if problem.hardware is not None:
        return fits(problem, problem.hardware, BATCH_TOLERANCE) is not None
    return any(
        next(batches(problem, shape.layout, BATCH_TOLERANCE), None) is not None
        for sharding in shardings(problem)[0]
        for shape in shapes(problem, sharding)
    )
