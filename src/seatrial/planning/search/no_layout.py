# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What is said when no layout can be had: which rule is broken, or what would make it fit."""

from dataclasses import replace
from typing import NoReturn

from seatrial.codes.planning import PlanCode
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity
from seatrial.planning.choices import LAYOUT_FIELDS, Choice, value_at
from seatrial.planning.resolve import Basis
from seatrial.planning.resolve_layout import LayoutResolution
from seatrial.planning.search.candidates import Lacking
from seatrial.planning.search.explain import GIB, named
from seatrial.planning.search.problem import SearchProblem
from seatrial.planning.search.sizing import fewest_nodes, fits
from seatrial.spec.loader import LoadedSpec
from seatrial.spec.parallelism import ParallelismSpec
from seatrial.spec.scalars import AUTO

_LEAST: dict[str, Choice] = {
    "parallelism.sequence_parallel": False,
    "parallelism.sharding": "optimizer",
    "parallelism.recompute": "none",
}
"""What an open field is taken for where a given one breaks a rule; sizes are taken as 1."""


def refuse_illegal(basis: Basis, problem: SearchProblem) -> NoReturn:
    """Raise with the rules that the given values break."""
    loaded = basis.loaded
    left_open = [field for field in LAYOUT_FIELDS if value_at(loaded.spec, field) == AUTO]
    choices = {field: _LEAST.get(field, 1) for field in left_open}
    if "training.global_batch_size" in choices:
        choices["training.global_batch_size"] = problem.world_size
    # Raises with the rule, in nearly every case: what is given is wrong whatever is chosen.
    resolution = LayoutResolution(basis, choices)
    batch = resolution.batch(resolution.layout()[0])
    resolution.schedule(batch, resolution.length(batch))
    given = [field for field in LAYOUT_FIELDS if field not in left_open]
    values = ", ".join(f"{field}={value_at(loaded.spec, field)}" for field in given)
    raise FindingsError(
        [
            Finding(
                PlanCode.NO_LAYOUT,
                Severity.ERROR,
                loaded.where(given[0] if given else "cluster.nodes"),
                f"no legal layout on {problem.world_size:,} ranks keeps {values}.",
                "",
                "Leave one of them to the planner (auto), or use another number of nodes.",
            )
        ]
    )


def refuse_too_large(loaded: LoadedSpec, problem: SearchProblem, nearest: Lacking) -> NoReturn:
    """Raise with what the nearest layout lacks, and what would make the model fit."""
    raise FindingsError([too_large(loaded, problem, nearest)])


def too_large(loaded: LoadedSpec, problem: SearchProblem, nearest: Lacking) -> Finding:
    """The finding that nothing fits."""
    hardware = nearest.memory
    room = (hardware.headroom + hardware.fullest.total) / GIB
    need = hardware.fullest.total / GIB
    name = problem.hardware.accelerator if problem.hardware else "GPU"
    return Finding(
        PlanCode.NO_FIT,
        Severity.ERROR,
        loaded.where("cluster.nodes"),
        f"no layout fits {problem.world_size:,} × {name}: the nearest, {named(nearest.candidate)} "
        f"with recompute {nearest.candidate.recompute}, needs {need:,.1f} of {room:,.1f} GiB.",
        f"{need:,.1f} GiB",
        remedy(problem),
    )


def remedy(problem: SearchProblem) -> str:
    """What would make a model fit that does not."""
    if problem.hardware is None:
        return ""
    free = replace(
        problem, given=ParallelismSpec(etp_size=problem.given.etp_size), micro_batch_size=AUTO
    )
    if fits(free, problem.hardware):
        return "Leave parallelism and micro_batch_size to the planner (auto): then it fits."
    fewest = fewest_nodes(free, problem.hardware)
    if fewest is None:
        return "Use GPUs with more memory, or a smaller model."
    return (
        f"Use at least {fewest.nodes:,} nodes, with parallelism and micro_batch_size left to the "
        "planner (auto), or GPUs with more memory."
    )
