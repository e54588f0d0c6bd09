# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a plan's own memory and time say against it."""

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
"""Share of the time from which on it is said that saves and failures take it."""
FASTER = 0.8
"""A storage tier is named as faster where a save takes at most this share of the time."""
MINUTE = 60.0


def verdicts(loaded: LoadedSpec, run: PlannedRun) -> list[Finding]:
    """Findings about memory and time of a plan; none on a host without GPUs."""
    if run.chosen is None:
        return []
    return [
        *_unmeasured(loaded, run),
        *_beyond(loaded, run),
        *_too_full(loaded, run, run.chosen.memory),
        *_only_fsdp(loaded, run),
    ]


def lost_time(loaded: LoadedSpec, run: PlannedRun, saves: Saves | None) -> list[Finding]:
    """A finding about a run that loses much of its time to saves, failures and restarts."""
    lost = saves.budget.lost if saves else None
    if run.chosen is None or saves is None or lost is None or lost.total < MUCH_LOST:
        return []
    rule = (
        f"saves take {percent(lost.saving)} of the time, failures and restarts "
        f"{percent(lost.failures)}: "
        f"one failure in {saves.between_failures / MINUTE:,.0f} min is expected, and "
        f"{RESTART_SECONDS / MINUTE:,.0f} min to get going again."
    )
    shorter = _shorter(saves, restarts=lost.failures >= lost.saving)
    fix = f"Reckon with it, or shorten {shorter}."
    if not shorter:
        fix = "Reckon with it: each save weighs less in a longer run."
    best, every = least_losing(run.plan, run.chosen, saves), run.plan.save_every_steps
    written = run.plan.origins.get(SAVES, Origin.YOU) is Origin.YOU
    if written and abs(best - every) > 1:
        fix = f"Leave checkpoints.every_steps to the planner (auto), or use {best:,}."
    value = percent(lost.total)
    where = loaded.where(SAVES)
    return [Finding(PlanCode.LOST_TIME, Severity.WARNING, where, rule, value, fix)]


def _shorter(saves: Saves, *, restarts: bool) -> str:
    """What would lose less time: restarts, and saves where the cluster has a faster tier.

    Restarts are named where they, and not the saves, take most of what is lost.
    """
    known = {tier: seconds for tier, seconds in saves.write_seconds.items() if seconds is not None}
    tier = min(known, key=lambda name: known[name], default=saves.tier)
    now = saves.budget.write_seconds
    if now is None or tier == saves.tier or known[tier] > FASTER * now:
        return "restarts, by spare nodes for one" if restarts else ""
    first = "restarts, by spare nodes for one, and " if restarts else ""
    return (
        f"{first}saves: {known[tier] / MINUTE:,.1f} instead of {now / MINUTE:,.1f} min with "
        f"cluster.storage.tier={tier}"
    )


def _unmeasured(loaded: LoadedSpec, run: PlannedRun) -> list[Finding]:
    """A note where no published run on such GPUs was fitted."""
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
            f"no published run on {hardware.accelerator} was fitted: the time of a step is that of "
            "the nearest GPU, scaled by the data sheets.",
            hardware.accelerator,
            f"Reckon with {percent(known.nine_of_ten)} and more, or calibrate by your own steps.",
        )
    ]


def _beyond(loaded: LoadedSpec, run: PlannedRun) -> list[Finding]:
    """A note where the layout goes beyond the published runs that were fitted."""
    known = run.time_error
    if known is None or not known.beyond:
        return []
    return [
        Finding(
            PlanCode.BEYOND_FIT,
            Severity.NOTE,
            loaded.where("cluster.nodes"),
            "the time of a step goes beyond the published runs that were fitted: "
            f"{'; '.join(known.beyond)}.",
            f"±{percent(known.nine_of_ten)}",
            "The error is widened for it. Calibrate by a few steps of your own: seatrial calibrate "
            f"{loaded.root.file}.",
        )
    ]


def _family(accelerator: str) -> str:
    """The GPU without its memory and form: `h100` of `h100-80gb`."""
    return accelerator.partition("-")[0]


def _too_full(loaded: LoadedSpec, run: PlannedRun, need: Memory) -> list[Finding]:
    """A finding about a layout that does not fit, or might not."""
    if need.verdict is MemoryFit.FITS:
        return []
    value = f"{need.fullest.total / GIB:,.1f} GiB"
    stage = f"stage {need.fullest.index} needs {room(need)}"
    where = loaded.where("parallelism")
    if need.verdict is MemoryFit.DOES_NOT_FIT:
        rule, fix = f"the layout does not fit: {stage}.", remedy(run.problem)
        return [Finding(PlanCode.NO_FIT, Severity.ERROR, where, rule, value, fix)]
    rule = f"the layout might not fit: {stage}."
    fix = "Try a few steps first, or divide the model further."
    if run.searched:
        safe = _other_sharing(run)
        rule = f"nothing fits for certain; the fastest that might: {stage}."
        fix = f"Try a few steps first, or use {_enough(run)}."
        if safe is not None and run.chosen is not None:
            slower = times(safe.rate / run.chosen.rate)
            rule = f"the layout might not fit: {stage}. What fits for certain, fsdp, {slower}."
            fix = f"Try a few steps first, use {_enough(run)}, or set parallelism.sharding=fsdp."
    return [Finding(PlanCode.RISKY, Severity.WARNING, where, rule, value, fix)]


def _only_fsdp(loaded: LoadedSpec, run: PlannedRun) -> list[Finding]:
    """A finding about a layout that was taken because only with FSDP something fits."""
    outcome, chosen = run.outcome, run.chosen
    if outcome is None or chosen is None or not run.searched or outcome.instead is None:
        return []
    if chosen.candidate.shape.sharding is not Sharding.FSDP:
        return []
    instead, other = outcome.instead, _other_sharing(run)
    title = engine_named(loaded.spec.engine.name).title
    rule = (
        f"only fsdp fits, and no published run says how fast {title}'s is; with the distributed "
        f"optimizer the nearest, {named(instead.candidate)}, needs {room(instead.memory)}."
    )
    fix = f"Use {_enough(run)}."
    if other is not None:
        rule = (
            f"only fsdp fits for certain. {named(other.candidate)} with the distributed optimizer "
            f"needs {room(other.memory)} and {times(other.rate / chosen.rate)}."
        )
        fix = f"Use {_enough(run)}, or try a few steps with parallelism.sharding=optimizer."
    value = str(chosen.candidate.shape.sharding)
    where = loaded.where("parallelism.sharding")
    return [Finding(PlanCode.ONLY_FSDP, Severity.WARNING, where, rule, value, fix)]


def _other_sharing(run: PlannedRun) -> Priced | None:
    """The best layout of the other way to share out, where it was weighed against the chosen."""
    instead = run.outcome.instead if run.outcome else None
    if run.chosen is None or not isinstance(instead, Priced):
        return None
    same = instead.candidate.shape.sharding is run.chosen.candidate.shape.sharding
    return None if same else instead


def _enough(run: PlannedRun) -> str:
    """On how many nodes a layout with the distributed optimizer fits for certain."""
    problem, hardware = run.problem, run.problem.hardware
    if hardware is None:
        return "more nodes"
    shared = {"sharding": Sharding.OPTIMIZER}
    open_given = ParallelismSpec(etp_size=problem.given.etp_size).model_copy(update=shared)
    free = replace(problem, given=open_given, micro_batch_size=AUTO)
    if fits(free, hardware):
        return "auto for the rest of parallelism and micro_batch_size, which fits for certain"
    given = problem.given.model_copy(update=shared)
    above = problem.world_size // problem.per_node
    fewest = fewest_nodes(replace(problem, given=given), hardware, above)
    if fewest is None:
        return "GPUs with more memory"
    return f"{fewest.nodes:,} nodes, which fit for certain"


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


def _nearer(problem: SearchProblem) -> str:
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


def _near(problem: SearchProblem) -> bool:
    """Whether a legal layout with a batch near the target fits."""
    if problem.hardware is not None:
        return fits(problem, problem.hardware, BATCH_TOLERANCE) is not None
    return any(
        next(batches(problem, shape.layout, BATCH_TOLERANCE), None) is not None
        for sharding in shardings(problem)[0]
        for shape in shapes(problem, sharding)
    )
