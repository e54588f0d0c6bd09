# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Findings about the memory and time of a plan."""

from dataclasses import replace

from seatrial.codes.planning import PlanCode
from seatrial.findings import Finding, Severity
from seatrial.planning.choices import SAVES
from seatrial.planning.memory.breakdown import Memory, MemoryFit
from seatrial.planning.plan import Origin
from seatrial.planning.planner import PlannedRun
from seatrial.planning.saving.run_saves import Saves, least_losing
from seatrial.planning.saving.save_budget import RESTART_SECONDS
from seatrial.planning.search.candidates import Priced
from seatrial.planning.search.explain import GIB, named, percent, room, times
from seatrial.planning.search.no_layout import remedy
from seatrial.planning.search.problem import SearchProblem
from seatrial.planning.search.search import BATCH_TOLERANCE, off_target, shardings
from seatrial.planning.search.sizing import fewest_nodes, fits
from seatrial.planning.search.space import batches, shapes
from seatrial.planning.timing.constants import table
from seatrial.spec.engine import engine_named
from seatrial.spec.loader import LoadedSpec
from seatrial.spec.parallelism import ParallelismSpec, Sharding
from seatrial.spec.scalars import AUTO

MUCH_LOST = 0.1
"""Fraction of time lost to saves and failures above which a finding reports the loss."""
FASTER = 0.8
"""A storage tier counts as faster if a save takes at most this fraction of the current time."""
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


def verdicts(loaded: LoadedSpec, run: PlannedRun) -> list[Finding]:
    """Return findings about the memory and time of a plan; none on a host without GPUs."""
    if run.chosen is None:
        return []
    return [
        *_unmeasured(loaded, run),
        *_beyond(loaded, run),
        *_too_full(loaded, run, run.chosen.memory),
        *_only_fsdp(loaded, run),
    ]


def lost_time(loaded: LoadedSpec, run: PlannedRun, saves: Saves | None) -> list[Finding]:
    """Warn if a run loses much of its time to saves, failures and restarts."""
    lost = saves.budget.lost if saves else None
    if run.chosen is None or saves is None or lost is None or lost.total < MUCH_LOST:
        return []
    rule = (
        f"saves take {percent(lost.saving)} of the time, failures and restarts "
        f"{percent(lost.failures)}. The estimate assumes one failure every "
        f"{_long(saves.between_failures)} and {RESTART_SECONDS / MINUTE:,.0f} min per restart."
    )
    fix = _lose_less(run, run.chosen, saves)
    where = loaded.where(run.plan.spec.checkpoints.interval_field)
    value = percent(lost.total)
    return [Finding(PlanCode.LOST_TIME, Severity.WARNING, where, rule, value, fix)]


def _long(seconds: float) -> str:
    """Return a long time in whole days, hours or minutes."""
    for size, unit in ((DAY, "days"), (HOUR, "hours")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds / MINUTE:,.0f} min"


def _lose_less(run: PlannedRun, chosen: Priced, saves: Saves) -> str:
    """Return the fix for a run that loses much time: a better interval, or shorter losses."""
    best, every = least_losing(run.plan, chosen, saves), run.plan.save_every_steps
    field = run.plan.spec.checkpoints.interval_field
    if run.plan.origins.get(SAVES, Origin.YOU) is Origin.YOU and abs(best - every) > 1:
        if field != SAVES:
            return f"Remove {field}, or replace it with {SAVES}={best}."
        return f"Set {SAVES} to auto, or to {best:,}."
    lost, cheapest = saves.budget.lost, saves.budget.best_every_steps
    saving_more = lost is not None and lost.saving > lost.failures
    shorter = _shorter(saves, restarts=not saving_more)
    if saving_more and cheapest is not None and cheapest > every and field == SAVES:
        hours = cheapest * chosen.time.total / HOUR
        less = f"Save less often: checkpoints.every_hours={hours:.2g} loses the least time."
        return f"{less} Or shorten {shorter}." if shorter else less
    if shorter:
        return f"Accept this lost time, or shorten {shorter}."
    return "No action needed: in a longer run, saves take a smaller share of the time."


def _shorter(saves: Saves, *, restarts: bool) -> str:
    """Return what to shorten: restarts, and saves if the cluster has a faster storage tier.

    Restarts are included if they cost more time than saves.
    """
    known = {tier: seconds for tier, seconds in saves.write_seconds.items() if seconds is not None}
    tier = min(known, key=lambda name: known[name], default=saves.tier)
    now = saves.budget.write_seconds
    if now is None or tier == saves.tier or known[tier] > FASTER * now:
        return "restarts, for example with spare nodes" if restarts else ""
    first = "restarts, for example with spare nodes, and " if restarts else ""
    return (
        f"{first}saves: {known[tier] / MINUTE:,.1f} instead of {now / MINUTE:,.1f} min with "
        f"cluster.storage.tier={tier}"
    )


def _unmeasured(loaded: LoadedSpec, run: PlannedRun) -> list[Finding]:
    """Note that the constants are not fitted to runs on this GPU."""
    hardware, constants, known = run.problem.hardware, run.constants, run.time_error
    if hardware is None or constants is None or known is None or constants.scale != 1.0:
        return []
    families = {_family(fit.accelerator) for fit in table().fits}
    if _family(hardware.accelerator) in families:
        return []
    return [
        Finding(
            PlanCode.UNMEASURED,
            Severity.NOTE,
            loaded.where("cluster.node_type"),
            f"the step time is not fitted to published runs on {hardware.accelerator}, but scaled "
            "from the most similar GPU using data sheets.",
            hardware.accelerator,
            f"Expect an error of {percent(known.nine_of_ten)} or more, or calibrate with your own "
            "steps.",
        )
    ]


def _beyond(loaded: LoadedSpec, run: PlannedRun) -> list[Finding]:
    """Note that the layout is outside the range of the fitted runs."""
    known = run.time_error
    if known is None or not known.beyond:
        return []
    return [
        Finding(
            PlanCode.BEYOND_FIT,
            Severity.NOTE,
            loaded.where("cluster.nodes"),
            "the step time is extrapolated beyond the published runs that the model was fitted to: "
            f"{'; '.join(known.beyond)}.",
            f"±{percent(known.nine_of_ten)}",
            "The error bar includes the extrapolation. To reduce it, calibrate with a few of your "
            f"own steps: seatrial calibrate {loaded.root.file}.",
        )
    ]


def _family(accelerator: str) -> str:
    """Return the GPU without its memory and form factor: `h100` for `h100-80gb`."""
    return accelerator.partition("-")[0]


def _too_full(loaded: LoadedSpec, run: PlannedRun, need: Memory) -> list[Finding]:
    """Report a layout that does not fit into memory, or might not."""
    if need.verdict is MemoryFit.FITS:
        return []
    value = f"{need.fullest.total / GIB:,.1f} GiB"
    stage = f"stage {need.fullest.index} needs {room(need)}"
    where = loaded.where("parallelism")
    if need.verdict is MemoryFit.DOES_NOT_FIT:
        rule, fix = f"the layout does not fit: {stage}.", remedy(run.problem)
        return [Finding(PlanCode.NO_FIT, Severity.ERROR, where, rule, value, fix)]
    rule = f"the layout might not fit: {stage}."
    fix = "Try a few steps first, or split the model further."
    if run.searched:
        safe = _other_sharing(run)
        rule = f"no layout certainly fits. In the fastest layout that might fit, {stage}."
        fix = f"Try a few steps first, or use {_enough(run)}."
        if safe is not None and run.chosen is not None:
            slower = times(safe.rate / run.chosen.rate)
            rule = f"the layout might not fit: {stage}. fsdp certainly fits, and {slower}."
            fix = f"Try a few steps first, use {_enough(run)}, or set parallelism.sharding=fsdp."
    return [Finding(PlanCode.RISKY, Severity.WARNING, where, rule, value, fix)]


def _only_fsdp(loaded: LoadedSpec, run: PlannedRun) -> list[Finding]:
    """Warn that only FSDP layouts fit."""
    outcome, chosen = run.outcome, run.chosen
    if outcome is None or chosen is None or not run.searched or outcome.instead is None:
        return []
    if chosen.candidate.shape.sharding is not Sharding.FSDP:
        return []
    instead, other = outcome.instead, _other_sharing(run)
    title = engine_named(loaded.spec.engine.name).title
    rule = (
        f"only fsdp fits, but few published runs show how fast fsdp is with {title}. With the "
        f"distributed optimizer, the nearest layout, {named(instead.candidate)}, needs "
        f"{room(instead.memory)}."
    )
    fix = f"Use {_enough(run)}."
    if other is not None:
        rule = (
            f"only fsdp certainly fits. {named(other.candidate)} with the distributed optimizer "
            f"needs {room(other.memory)} and {times(other.rate / chosen.rate)}."
        )
        fix = f"Use {_enough(run)}, or try a few steps with parallelism.sharding=optimizer."
    value = str(chosen.candidate.shape.sharding)
    where = loaded.where("parallelism.sharding")
    return [Finding(PlanCode.ONLY_FSDP, Severity.WARNING, where, rule, value, fix)]


def _other_sharing(run: PlannedRun) -> Priced | None:
    """Return the best layout with the other sharding, if it was compared with the chosen one."""
    instead = run.outcome.instead if run.outcome else None
    if run.chosen is None or not isinstance(instead, Priced):
        return None
    same = instead.candidate.shape.sharding is run.chosen.candidate.shape.sharding
    return None if same else instead


def _enough(run: PlannedRun) -> str:
    """Return the change with which a layout with the distributed optimizer certainly fits."""
    problem, hardware = run.problem, run.problem.hardware
    if hardware is None:
        return "more nodes"
    shared = {"sharding": Sharding.OPTIMIZER}
    open_given = ParallelismSpec(etp_size=problem.given.etp_size).model_copy(update=shared)
    free = replace(problem, given=open_given, micro_batch_size=AUTO)
    if fits(free, hardware):
        return "auto for the rest of parallelism and micro_batch_size, which certainly fits"
    given = problem.given.model_copy(update=shared)
    above = problem.world_size // problem.per_node
    fewest = fewest_nodes(replace(problem, given=given), hardware, above)
    if fewest is None:
        return "GPUs with more memory"
    return f"{fewest.nodes:,} nodes, on which a layout certainly fits"


FEWER = 8
"""Largest reduction in nodes that is tried for a batch size near the target."""


def far_batch(loaded: LoadedSpec, run: PlannedRun) -> list[Finding]:
    """Warn if no layout has an `auto` global batch size near its target."""
    problem, batch = run.problem, run.plan.batch.global_batch_size
    if problem.global_batch_size != AUTO or off_target(problem, batch) <= BATCH_TOLERANCE:
        return []
    return [
        Finding(
            PlanCode.FAR_BATCH,
            Severity.WARNING,
            loaded.where("training.global_batch_size"),
            f"no layout that fits on {problem.world_size:,} ranks has a global batch size near the "
            f"target of {problem.target_batch:,}. The nearest is {batch:,}, which may train "
            "differently.",
            f"{batch:,}",
            f"{_nearer(problem)} Or set training.global_batch_size={batch} to accept this size.",
        )
    ]


def _nearer(problem: SearchProblem) -> str:
    """Return the fix that brings the batch size near its target."""
    free = replace(
        problem, given=ParallelismSpec(etp_size=problem.given.etp_size), micro_batch_size=AUTO
    )
    if _near(free):
        return (
            "Set parallelism and micro_batch_size to auto, for which a layout is near the target."
        )
    nodes = problem.world_size // problem.per_node
    for fewer in range(nodes - 1, max(0, nodes - 1 - FEWER), -1):
        smaller = replace(problem, world_size=fewer * problem.per_node)
        if _near(smaller):
            return f"Use {fewer:,} nodes, on which a layout is near the target."
    return "Use fewer nodes, or a number of nodes with more divisors."


def _near(problem: SearchProblem) -> bool:
    """Return True if a valid layout with a batch size near the target fits."""
    if problem.hardware is not None:
        return fits(problem, problem.hardware, BATCH_TOLERANCE) is not None
    return any(
        next(batches(problem, shape.layout, BATCH_TOLERANCE), None) is not None
        for sharding in shardings(problem)[0]
        for shape in shapes(problem, sharding)
    )
