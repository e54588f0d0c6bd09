# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a plan's own memory and time say against it."""

from seatrial.findings import Finding, Severity
from seatrial.planning.codes import PlanCode
from seatrial.planning.memory.parts import Fit
from seatrial.planning.search.explain import GIB
from seatrial.planning.search.planner import PlannedRun
from seatrial.planning.search.refuse import remedy
from seatrial.spec.loader import LoadedSpec


def verdicts(loaded: LoadedSpec, run: PlannedRun) -> list[Finding]:
    """Findings about a layout that does not fit, or might not."""
    if run.chosen is None:
        return []
    need = run.chosen.memory
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
