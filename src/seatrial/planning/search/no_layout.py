# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The errors if no layout is possible: the broken rule, or a change that makes the model fit."""

from dataclasses import replace
from math import gcd
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
from seatrial.spec.pipeline_layout import parse_layout
from seatrial.spec.scalars import AUTO

_LEAST: dict[str, Choice] = {
    "parallelism.sequence_parallel": False,
    "parallelism.sharding": "optimizer",
    "parallelism.recompute": "none",
}
"""Values of open fields while the fields in the spec are checked; sizes are 1."""


def refuse_illegal(basis: Basis, problem: SearchProblem) -> NoReturn:
    """Raise with the rules that the values in the spec break."""
    loaded = basis.loaded
    left_open = [field for field in LAYOUT_FIELDS if value_at(loaded.spec, field) == AUTO]
    choices = {field: _LEAST.get(field, 1) for field in left_open}
    choices |= {
        field: size
        for field, size in _custom_sizes(problem.given, problem.world_size).items()
        if field in left_open
    }
    if problem.model.is_moe and problem.given.tp_size not in (AUTO, 1):
        # Experts with tensor parallelism require it.
        choices |= dict.fromkeys({"parallelism.sequence_parallel"} & choices.keys(), True)
    if "training.global_batch_size" in choices:
        # Larger than the early batches, unless the target is not.
        early, ranks = max(problem.early_batches, default=0), problem.world_size
        times = early // ranks + 1 if problem.target_batch > early else max(1, early // ranks)
        choices["training.global_batch_size"] = times * ranks
    # This nearly always raises: the spec's values break a rule regardless of the others.
    resolution = LayoutResolution(basis, choices)
    batch = resolution.batch(resolution.layout()[0])
    resolution.schedule(resolution.length(batch))
    given = [field for field in LAYOUT_FIELDS if field not in left_open]
    values = ", ".join(f"{field}={value_at(loaded.spec, field)}" for field in given)
    raise FindingsError(
        [
            Finding(
                PlanCode.NO_LAYOUT,
                Severity.ERROR,
                loaded.where(given[0] if given else "cluster.nodes"),
                f"no valid layout on {problem.world_size:,} ranks has {values}.",
                "",
                "Set one of these fields to auto, or use a different number of nodes.",
            )
        ]
    )


def _custom_sizes(given: ParallelismSpec, ranks: int) -> dict[str, Choice]:
    """Return the sizes that follow from a custom layout, on as many ranks as possible."""
    if given.pipeline_layout is None:
        return {}
    stages = len(parse_layout(given.pipeline_layout).stages)
    pp, vp = given.pp_size, given.vp_size
    if pp == AUTO:
        # If no number of stages divides the ranks, the finding is about all of them.
        common = gcd(stages, ranks)
        pp = (common if common > 1 else stages) if vp == AUTO else stages // int(vp)
    return {"parallelism.pp_size": int(pp), "parallelism.vp_size": stages // int(pp)}


def refuse_too_large(loaded: LoadedSpec, problem: SearchProblem, nearest: Lacking) -> NoReturn:
    """Raise with the memory of the nearest layout, and a change that makes the model fit."""
    raise FindingsError([too_large(loaded, problem, nearest)])


def too_large(loaded: LoadedSpec, problem: SearchProblem, nearest: Lacking) -> Finding:
    """Return the finding that no layout fits."""
    hardware = nearest.memory
    room = (hardware.headroom + hardware.fullest.total) / GIB
    need = hardware.fullest.total / GIB
    name = problem.hardware.accelerator if problem.hardware else "GPU"
    return Finding(
        PlanCode.NO_FIT,
        Severity.ERROR,
        loaded.where("cluster.nodes"),
        f"no layout fits on {problem.world_size:,} × {name}: the nearest layout, "
        f"{named(nearest.candidate)} with recompute {nearest.candidate.recompute}, needs "
        f"{need:,.1f} of {room:,.1f} GiB.",
        f"{need:,.1f} GiB",
        remedy(problem),
    )


def remedy(problem: SearchProblem) -> str:
    """Return the fix that makes the model fit."""
    if problem.hardware is None:
        return ""
    free = replace(
        problem, given=ParallelismSpec(etp_size=problem.given.etp_size), micro_batch_size=AUTO
    )
    if fits(free, problem.hardware):
        return "Set parallelism and micro_batch_size to auto, for which a layout fits."
    fewest = fewest_nodes(free, problem.hardware)
    if fewest is None:
        return "Use GPUs with more memory, or a smaller model."
    return (
        f"Use at least {fewest.nodes:,} nodes, with parallelism and micro_batch_size set to auto, "
        "or GPUs with more memory."
    )
