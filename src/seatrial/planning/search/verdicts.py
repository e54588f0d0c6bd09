# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a plan's own memory and time say against it."""

from seatrial.findings import Finding, Severity
from seatrial.planning.codes import PlanCode
from seatrial.planning.memory.parts import Fit, Memory
from seatrial.planning.search.explain import GIB
from seatrial.planning.search.planner import PlannedRun
from seatrial.planning.search.refuse import remedy
from seatrial.planning.timing.constants import table
from seatrial.spec.loader import LoadedSpec


def verdicts(loaded: LoadedSpec, run: PlannedRun) -> list[Finding]:
    """Findings about memory and time of a plan; none on a host without GPUs."""
    if run.chosen is None:
        return []
    return [*_unmeasured(loaded, run), *_too_full(loaded, run, run.chosen.memory)]


def _unmeasured(loaded: LoadedSpec, run: PlannedRun) -> list[Finding]:
    """A note where no published run on such GPUs was fitted."""
    hardware, constants = run.problem.hardware, run.constants
    if hardware is None or constants is None or run.chosen is None or constants.scale != 1.0:
        return []
    families = {_family(fit.accelerator) for fit in table().fits}
    if _family(hardware.accelerator) in families:
        return []
    return [
        Finding(
            PlanCode.UNMEASURED,
            Severity.NOTE,
            loaded.where("cluster.node_type"),
            f"no published run on {hardware.accelerator} was fitted: the time of a step is that of "
            "the nearest GPU, scaled by the data sheets.",
            hardware.accelerator,
            f"Reckon with {run.chosen.time.error:.0%} and more, or calibrate by steps of your own.",
        )
    ]


def _family(accelerator: str) -> str:
    """The GPU without its memory and form: `h100` of `h100-80gb`."""
    return accelerator.partition("-")[0]


def _too_full(loaded: LoadedSpec, run: PlannedRun, need: Memory) -> list[Finding]:
    """A finding about a layout that does not fit, or might not."""
    if need.verdict is Fit.FITS:
        return []
    total = need.fullest.total / GIB
    room = (need.headroom + need.fullest.total) / GIB
    spread = total * need.error
    stage = f"stage {need.fullest.index} needs {total:,.1f} ± {spread:,.1f} of {room:,.1f} GiB"
    where = loaded.where("parallelism")
    if need.verdict is Fit.DOES_NOT_FIT:
        rule, fix = f"the layout does not fit: {stage}.", remedy(run.problem)
        return [Finding(PlanCode.NO_FIT, Severity.ERROR, where, rule, f"{total:,.1f} GiB", fix)]
    rule = f"the layout might not fit: {stage}."
    fix = "Try a few steps first, or divide the model further."
    if run.searched:
        rule = f"nothing fits for certain; the fastest that might: {stage}."
        fix = "Try a few steps first, or use more nodes."
    return [Finding(PlanCode.RISKY, Severity.WARNING, where, rule, f"{total:,.1f} GiB", fix)]
