# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The page of `seatrial plan`: one fact per line, with error bars."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from seatrial.findings import Finding
from seatrial.planning.choices import SAVES
from seatrial.planning.memory.breakdown import Memory, MemoryFit, StageMemory
from seatrial.planning.plan import Origin
from seatrial.planning.planner import PlannedRun
from seatrial.planning.run_budget import Cost, Duration, RunBudget, failure_loss
from seatrial.planning.saving.save_budget import SaveBudget
from seatrial.planning.search.candidates import Priced, SearchOutcome
from seatrial.planning.search.explain import WITHIN_NOISE, named, percent, why
from seatrial.planning.search.sizing import MOST_NODES, ROUND, Limits
from seatrial.planning.timing.breakdown import TimePart
from seatrial.planning.timing.constants import TimingConstants
from seatrial.reports.node_map import caption, node_pictures
from seatrial.reports.plan_colours import paint, paint_head
from seatrial.reports.plan_phrases import (
    GIB,
    TIB,
    duration,
    duration_with_error,
    early_batch_words,
    gib,
    layout_words,
    manner,
    option_lines,
    schedule_words,
    spread,
    stage_words,
    three,
    unit_of,
    unseen_words,
    whose_layout,
    with_error,
)
from seatrial.reports.terminal import columns, counted, say, say_painted, wrapped
from seatrial.spec.parallelism import Sharding
from seatrial.units import format_count

BARS = ((80, 20), (70, 10))
"""Columns of the terminal, and the characters of a bar that fits; below, none is drawn."""
LABEL = 10
"""Characters of the column of labels."""
BETWEEN, APART = " · ", "   "
"""Separators between the parts of a line."""
LONGEST_PART = 44
"""Characters of the longest part of a line that is not broken."""
NO_BREAK = "\u00a0"
"""A space at which no line is broken."""
MOST_STAGES = 4
"""Stages whose memory is drawn; of more, only the first, the fullest and the last."""
SMALL_PART = 0.005
"""Parts of a step below this share are left out."""
SMALLEST = 0.005
"""Parts of a duration below this number of its unit are left out."""
TIME_WORDS = {
    TimePart.TENSOR_PARALLEL: "tp",
    TimePart.CONTEXT_PARALLEL: "cp",
    TimePart.EXPERT_PARALLEL: "ep",
    TimePart.PIPELINE_TRANSFER: "pp",
    TimePart.DATA_PARALLEL: "dp",
}
FIT_WORDS = {
    MemoryFit.FITS: "fits",
    MemoryFit.RISKY: "might not fit",
    MemoryFit.DOES_NOT_FIT: "does not fit",
}
Line = tuple[str, str]
"""A label, empty below the first line of its section, and a fact."""


@dataclass(frozen=True, slots=True)
class Page:
    """The content of the page."""

    run: PlannedRun
    """The plan and the search behind it."""
    budget: RunBudget
    """Time, cost and checkpoints."""
    engine: str
    kept: str
    """Where the plan is stored."""
    command: str
    """The next command; empty if another command called this one."""
    findings: tuple[Finding, ...] = ()
    """Problems with the plan."""
    limits: Limits | None = None
    """The fewest nodes and the largest model, if they were asked for."""
    volume: str = ""
    """The volume that a launch would create."""
    storage_price: str = ""
    """The list price of checkpoints in an object store; empty for other storage."""
    warned: str = ""
    """The number of findings that only `seatrial check` lists, and the command."""
    fails_check: bool = False
    """True if there are errors among these findings."""


def bar(share: float, length: int = BARS[0][1]) -> str:
    """Return a bar that is filled to a share of its length."""
    full = max(0, min(length, round(share * length)))
    return "█" * full + "░" * (length - full)


def _bar_length(width: int | None) -> int:
    """Return the length of the bars for a terminal."""
    return next((length for least, length in BARS if width is None or width >= least), 0)


def say_page(page: Page) -> None:
    """Print the page; on a terminal, with colours."""
    width = columns()
    head = head_words(page)
    lines = wrapped(_unbroken(head, width - 2), width, rest="  ") if width else [head]
    say_painted("\n".join(lines).replace(NO_BREAK, " "), paint_head)
    say()
    for label, text in page_lines(page, bars=_bar_length(width)):
        first = f"{label:<{LABEL}}"
        # A command stays on one line, so that it can be copied.
        if width and label != "next":
            lines = wrapped(_unbroken(text), width, first)
        else:
            lines = [first + text]
        say_painted("\n".join(lines).replace(NO_BREAK, " "), paint)


_TOGETHER = re.compile(r"\b[tpdcev]p \d+|[\d.,]+ (?:[a-z]+ )?± [\d.,]+|\d+ %|± [\d.,]+ [MBT]\b")
"""Parts of a line that are never broken: degrees, numbers with their error bars, percentages."""


def _unbroken(text: str, longest: int = LONGEST_PART) -> str:
    """Return the text with no-break spaces inside its short parts, such as `dp 3 %`."""
    for between in (BETWEEN, APART):
        parts = text.split(between)
        text = between.join(
            part.replace(" ", NO_BREAK) if len(part) <= longest else part for part in parts
        )
    return _TOGETHER.sub(lambda found: found[0].replace(" ", NO_BREAK), text)


def head_words(page: Page, *, name: bool = True) -> str:
    """Return the name of the run, if wanted, the model, the machines and the engine."""
    plan = page.run.plan
    model, machines = plan.model, plan.machines
    size = f"{format_count(model.parameters)} parameters"
    if model.active_parameters != model.parameters:
        size += f" ({format_count(model.active_parameters)} active)"
    ranks = f"{machines.world_size:,} × {machines.accelerator}"
    if not machines.accelerator:
        ranks = counted(machines.world_size, "process", "processes")
    nodes = f"{machines.nodes:,} × {machines.node_type} = {ranks}"
    whose = f"{plan.spec.name}   " if name else ""
    return f"{whose}{model.name}, {size}   {nodes}   {page.engine}"


def page_lines(page: Page, *, pictures: bool = True, bars: int = BARS[0][1]) -> Iterator[Line]:
    """Return the lines of the page with their labels; bars and nodes only with pictures."""
    run = page.run
    yield from _layout(run, pictures=pictures)
    yield from _batch(run)
    if run.chosen is not None:
        yield from _memory(run.chosen, bars if pictures else 0)
        yield from _step(run, run.chosen)
    yield from _length(page)
    yield from _saves(page)
    if page.limits is not None:
        yield from _labelled("limits", limit_words(page))
    yield from _reasons(page)
    yield "kept", page.kept
    if page.warned:
        yield "check", page.warned
    if page.command:
        yield "next", page.command


def _labelled(label: str, facts: list[str]) -> Iterator[Line]:
    """Return facts as lines, of which the first has the label."""
    for position, fact in enumerate(facts):
        yield "" if position else label, fact


def _layout(run: PlannedRun, *, pictures: bool) -> Iterator[Line]:
    """Return the parallel degrees, and which GPU holds what."""
    plan = run.plan
    yield "layout", f"{layout_words(plan.layout)}   ({whose_layout(run)})"
    yield "", manner(plan)
    if plan.spec.parallelism.pipeline_layout is not None:
        yield "", f"{plan.spec.parallelism.pipeline_layout}   (you)"
    uneven = stage_words(plan)
    if uneven:
        yield "", uneven
    if pictures:
        for picture in node_pictures(plan.layout, plan.machines):
            yield "", picture
        yield "", caption(plan.layout, plan.machines)
    if run.basis.limits.options:
        yield from _labelled("options", option_lines(run))


def _batch(run: PlannedRun) -> Iterator[Line]:
    """Return the batch of a step and the learning rate."""
    plan = run.plan
    batch, (peak, warmup) = plan.batch, schedule_words(plan)
    where = plan.origins.get("training.global_batch_size", Origin.YOU)
    whose = plan.origins.get("training.learning_rate.peak", Origin.YOU)
    tokens = format_count(batch.tokens_per_step)
    yield "batch", f"{batch.global_batch_size:,} sequences, {tokens} tokens per step   ({where})"
    number = counted(batch.micro_batches, "micro-batch", "micro-batches")
    yield "", f"micro-batch {batch.micro_batch_size:,} × {number} × dp {plan.layout.dp_size:,}"
    yield from (("", words) for words in early_batch_words(run))
    yield "learning", f"rate {peak}   ({whose})"
    yield "", warmup


def _memory(chosen: Priced, bars: int) -> Iterator[Line]:
    """Return a bar for each stage that matters, and the parts of the fullest stage."""
    need = chosen.memory
    room = need.headroom + need.fullest.total
    many = len(need.stages)
    shown = need.stages
    if many > MOST_STAGES:
        wanted = {0, need.fullest.index, many - 1}
        shown = tuple(stage for stage in need.stages if stage.index in wanted)
    width = len(f"stage {many - 1}")
    for position, stage in enumerate(shown):
        fullest = stage.index == need.fullest.index
        verdict = f"   {FIT_WORDS[need.verdict]}" if fullest else ""
        drawn = f"{bar(stage.total / room, bars)}  " if bars else ""
        error = spread(stage.total * need.error / GIB)
        yield (
            "" if position else "memory",
            f"{f'stage {stage.index}':<{width}}  {drawn}{gib(stage.total)} ± {error} of "
            f"{gib(room)} GiB{verdict}",
        )
    of_stage = f"stage {need.fullest.index}, in GiB: " if many > 1 else "in GiB: "
    yield "", of_stage + memory_parts(need.fullest)


def memory_parts(stage: StageMemory) -> str:
    """Return the parts of a stage's memory in GiB."""
    return BETWEEN.join(f"{part} {gib(size)}" for part, size in stage.parts.items() if size)


def _step(run: PlannedRun, chosen: Priced) -> Iterator[Line]:
    """Return the step time, its parts, and the throughput per GPU."""
    time, error = chosen.time, step_error(run)
    yield "step", step_words(run, chosen)
    yield "", time_parts(chosen)
    flops, peak = time.flops_per_gpu, chosen.workload.hardware.peak_flops
    yield "", f"{with_error(flops / 1e12, error)} TFLOP/s per GPU, {percent(flops / peak)} of peak"
    yield "", f"{with_error(chosen.rate, error)} tokens/s per GPU"


def step_error(run: PlannedRun) -> float:
    """Return the relative error of the step time in nine of ten runs."""
    return run.time_error.nine_of_ten if run.time_error else 0.0


def step_words(run: PlannedRun, chosen: Priced) -> str:
    """Return the step time with its error bar, and how many runs the bar has covered."""
    known, seconds = run.time_error, chosen.time.total
    if known is not None and known.is_measured:
        return f"{duration(seconds)} ± {known.nine_of_ten:.1%}, nine of ten of your steps".replace(
            "%", " %"
        )
    if known is None:
        return duration(seconds)
    error = known.nine_of_ten
    words = f"{duration_with_error(seconds, error)} ({percent(error)})"
    return f"{words}; {unseen_words(run)} inside" if run.problem.limits.unseen else words


def time_parts(chosen: Priced) -> str:
    """Return the parts of a step as shares, the largest first."""
    total = chosen.time.total
    parts = sorted(chosen.time.parts.items(), key=lambda item: -item[1])
    return BETWEEN.join(
        f"{TIME_WORDS.get(part, part)} {percent(seconds / total)}"
        for part, seconds in parts
        if seconds / total >= SMALL_PART
    )


def _length(page: Page) -> Iterator[Line]:
    """Return steps, days, node-hours and dollars."""
    plan, budget = page.run.plan, page.budget
    steps = f"{plan.length.steps:,} steps, {format_count(plan.length.tokens)} tokens"
    if page.run.chosen is None:
        yield "length", steps
        yield "", "no GPU: time and cost are not modelled"
        return
    if budget.duration is None:
        yield "length", f"never finishes: failures are more frequent than saves ({steps})"
        return
    whole, parts = length_words(budget.duration, budget.error)
    yield "length", f"{whole} for {steps}"
    if len(parts) > 1:
        yield "", BETWEEN.join(parts)
    hours = f"{with_error(budget.node_hours, budget.error)} node-hours"
    yield "cost", f"{cost_words(budget.cost, plan.machines.node_type, budget.error)}"
    if budget.cost is not None:
        hours += f" at the list price of {budget.cost.as_of:%Y-%m} ({budget.cost.region})"
    yield "", hours


def length_words(length: Duration, error: float) -> tuple[str, list[str]]:
    """Return the duration, and its parts in the same unit: `35 days ± 2`, `training 34.4 days`."""
    size, word = unit_of(length.total)
    parts = {"training": length.training, "saves": length.saving, "failures": length.failures}
    named = [
        f"{name} {three(seconds / size)}"
        for name, seconds in parts.items()
        if seconds / size >= SMALLEST
    ]
    named[-1:] = [f"{part} {word}" for part in named[-1:]]
    return duration_with_error(length.total, error), named


def cost_words(cost: Cost | None, node_type: str, error: float) -> str:
    """Return the cost with its error bar, or how to add a price."""
    if cost is None:
        return f"no list price for {node_type}: add one to your own catalog"
    return f"${with_error(cost.usd, error)}"


def _saves(page: Page) -> Iterator[Line]:
    """Return the interval, the size, the save time, the time lost and the cost of a failure."""
    every, saves = page.run.plan.save_every_steps, page.budget.saves
    if saves is None or page.run.chosen is None:
        yield "saves", f"every {every:,} steps"
        return
    budget = saves.budget
    origin = page.run.plan.origins.get(SAVES, Origin.YOU)
    time = duration_with_error(saves.at_risk, page.budget.error)
    yield "saves", f"every {every:,} steps, {time}   ({origin})"
    reason = _interval_reason(page, budget, origin)
    if reason:
        yield "", reason
    size = f"{three(budget.size / 1e9)} GB each"
    if budget.write_seconds is not None:
        size += f", {duration(budget.write_seconds)} to {saves.tier}"
    yield "", size
    if budget.lost is not None:
        yield "", lost_words(page, budget)
    yield "", failure_words(page)
    on_volume = f", on {page.volume}" if page.volume else ""
    yield "", f"{three(budget.capacity / TIB)} TiB kept{on_volume}"
    if page.storage_price:
        yield "", page.storage_price
    others = _other_tiers(page)
    if others:
        yield "", f"on the smallest volume of other tiers: {others}"


def _interval_reason(page: Page, budget: SaveBudget, origin: Origin) -> str:
    """Return why this interval was chosen, or the interval that loses the least time."""
    every, best, saves = page.run.plan.save_every_steps, budget.best_every_steps, page.budget.saves
    if best is None or saves is None:
        return ""
    failures = f"at one failure in {duration(saves.between_failures)}"
    if every == best:
        return f"loses the least time {failures}"
    least = f"every {best:,} steps loses the least time {failures}"
    if origin is Origin.PLANNER and every < best:
        return f"at most 2 hours of work at risk; {least}"
    return least


def failure_words(page: Page) -> str:
    """Return the cost of one failure: the work since the last save, and the restart."""
    loss = failure_loss(page.budget, page.run.plan.machines.nodes)
    if loss is None:
        return ""
    cost = f", ${three(loss.usd)}" if loss.usd is not None else ""
    return (
        f"a failure loses up to {duration(loss.work)} of work and {duration(loss.restart)} to "
        f"restart{cost}"
    )


def _other_tiers(page: Page) -> str:
    """Return the save times on other storage tiers; tiers with equal times together."""
    saves = page.budget.saves
    if saves is None:
        return ""
    now = saves.budget.write_seconds
    tiers: dict[str, list[str]] = {}
    for tier, seconds in saves.write_seconds.items():
        if seconds is not None and tier != saves.tier:
            tiers.setdefault(duration(seconds), []).append(tier)
    if now is not None:
        tiers.pop(duration(now), None)
    return BETWEEN.join(f"{', '.join(names)} {time}" for time, names in tiers.items())


def lost_words(page: Page, budget: SaveBudget) -> str:
    """Return the shares of the time that saves and failures take."""
    if budget.lost is None:
        return ""
    failures = percent_of(budget.lost.failures)
    if budget.write_seconds is None:
        return (
            f"failures and restarts take {failures} of the time; saves are not estimated, because "
            "the storage bandwidth is not published"
        )
    # An asynchronous save is estimated as a synchronous one.
    most = "at most " if page.run.plan.spec.checkpoints.asynchronous else ""
    saving = percent_of(budget.lost.saving)
    return f"saves take {most}{saving} of the time, failures and restarts {failures}"


def percent_of(share: float) -> str:
    """Return a small share with one digit: `0.4 %`."""
    return f"{100 * share:.1f} %"


def sources(run: PlannedRun, constants: TimingConstants) -> str:
    """Return the runs that the constants of this kind of model were fitted to."""
    return constants.provenance_of(experts=run.plan.model.architecture.is_moe)


def limit_words(page: Page) -> list[str]:
    """Return the fewest nodes, and the largest model of the same shape."""
    limits, machines = page.limits, page.run.plan.machines
    if limits is None:
        return []
    nodes = f"fits on none of the node counts that were tried ({ROUND}, up to {MOST_NODES:,})"
    fewest = limits.fewest
    if fewest is not None:
        only = " with fsdp only" if limits.shared_out is Sharding.FSDP else ""
        which = "and no fewer" if fewest.all_tried else "but not every smaller number was tried"
        nodes = (
            f"fits on {fewest.nodes:,} × {machines.node_type}{only}, {which}; "
            "a larger number must also divide evenly"
        )
    largest = limits.largest_model
    if largest is None:
        return [nodes]
    shape = f"{largest.architecture.layers} layers × {largest.architecture.hidden_size:,}"
    these = f"these {machines.nodes:,}" if machines.nodes > 1 else "this node"
    up_to, beyond = "at least", ""
    if not largest.largest_tried:
        up_to, beyond = "up to", "; the next larger size that divides evenly does not fit"
    return [
        nodes,
        f"on {these}, a model of this shape fits with {up_to} "
        f"{format_count(largest.parameters)} parameters ({shape}: layers and width scaled alike"
        f"{beyond})",
    ]


def _reasons(page: Page) -> Iterator[Line]:
    """Return why this layout was chosen, and the measured accuracy of the estimates."""
    run, known = page.run, page.run.time_error
    if run.chosen is None or run.outcome is None or run.constants is None or known is None:
        return
    facts = why(run.chosen, run.outcome, run.problem)
    facts += _better(run, run.chosen)
    yield from _labelled("why", facts)
    tested = f"{percent(known.median)} median error, {percent(known.nine_of_ten)} in nine of ten"
    if known.is_measured:
        tested = "measured with this layout"
    yield "tested", f"step time: {tested} ({sources(run, run.constants)})"
    yield "", memory_words(run.chosen.memory)


def _better(run: PlannedRun, chosen: Priced) -> Iterator[str]:
    """Return the faster layouts that a new search finds, and those with every field `auto`."""

    def faster(outcome: SearchOutcome | None) -> str:
        best = outcome.best if outcome else None
        if best is None or best.rate <= chosen.rate * (1 + WITHIN_NOISE):
            return ""
        gain = percent(best.rate / chosen.rate - 1)
        words = f"{named(best.candidate)}, micro-batch {best.candidate.micro_batch_size}"
        return f"{words}, recompute {best.candidate.recompute}: {gain} faster"

    kept = faster(run.outcome) if run.searched else ""
    if kept:
        yield f"kept from an earlier plan; a new search (--again) finds {kept}"
    free = faster(run.with_auto) if run.given_fields or not run.searched else ""
    if free and free != kept:
        yield f"with auto, the planner chooses {free}"


def memory_words(need: Memory) -> str:
    """Return the measured accuracy of the memory estimate, and the part that is assumed."""
    tested = f"memory: within {percent(need.tested)} in nine of ten published runs"
    if not need.untested:
        return tested
    return (
        f"{tested}, plus {percent(need.assumed)} assumed for features that they barely cover: "
        f"{', '.join(need.untested)}"
    )
