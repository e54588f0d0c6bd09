# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The page of `seatrial plan`: what a person reads in ten seconds."""

from collections.abc import Iterator
from dataclasses import dataclass

from seatrial.findings import Finding
from seatrial.planning.layout import Axis, Layout
from seatrial.planning.memory.breakdown import Memory, StageMemory
from seatrial.planning.plan import Machines, Origin
from seatrial.planning.planner import PlannedRun
from seatrial.planning.run_budget import Cost, Duration, RunBudget
from seatrial.planning.saving.save_budget import SaveBudget
from seatrial.planning.search.candidates import Priced
from seatrial.planning.search.explain import WITHIN_NOISE, named, percent, why
from seatrial.planning.search.sizing import MOST_NODES, ROUND, Limits
from seatrial.planning.timing.breakdown import TimePart
from seatrial.planning.timing.constants import TimingConstants
from seatrial.reports.plan_phrases import (
    GIB,
    RECOMPUTE_WORDS,
    TIB,
    duration,
    duration_with_error,
    gib,
    layout_words,
    manner,
    schedule_words,
    spread,
    three,
    unit_of,
)
from seatrial.reports.terminal import columns, counted, say, wrapped
from seatrial.spec.parallelism import Sharding
from seatrial.units import format_count

BAR = 20
"""Characters of a bar."""
NODES_DRAWN = 2
"""Nodes that are drawn at the beginning; the last one follows them."""
WIDEST_NODE = 16
"""Ranks of a node that are drawn."""


def bar(share: float) -> str:
    """A bar that is filled to a share of its length."""
    full = max(0, min(BAR, round(share * BAR)))
    return "█" * full + "░" * (BAR - full)


def caption(layout: Layout) -> str:
    """What the numbers in the picture are."""
    return "the number is the pipeline stage" if layout.pp_size > 1 else "the number is the dp rank"


def node_pictures(layout: Layout, machines: Machines) -> list[str]:
    """The nodes as `node 0  ▕0 0 0 0│1 1 1 1▏`: the first ones and the last."""
    per_node = machines.processes_per_node
    if layout.pp_size > 1 and (layout.world_size // layout.pp_size) % per_node == 0:
        return _stage_pictures(layout, per_node)
    drawn = list(range(min(machines.nodes, NODES_DRAWN)))
    pictures = [f"node {node}  {_ranks(layout, node * per_node, per_node)}" for node in drawn]
    last = machines.nodes - 1
    if last > drawn[-1]:
        gap = ["…"] if last > drawn[-1] + 1 else []
        pictures += [*gap, f"node {last:,}  {_ranks(layout, last * per_node, per_node)}"]
    return pictures


def _stage_pictures(layout: Layout, per_node: int) -> list[str]:
    """Nodes by stage, where each stage has whole nodes."""
    each = layout.world_size // layout.pp_size // per_node
    stages = list(range(layout.pp_size))
    shown = stages if len(stages) <= NODES_DRAWN + 1 else [*stages[:NODES_DRAWN], stages[-1]]
    pictures = []
    for stage in shown:
        first = stage * each
        name = f"node {first:,}" if each == 1 else f"nodes {first:,}–{first + each - 1:,}"
        pictures.append(f"{name}  {_ranks(layout, first * per_node, per_node)}")
    if len(shown) < len(stages):
        pictures.insert(-1, "…")
    return pictures


def _ranks(layout: Layout, first: int, count: int) -> str:
    """The ranks of a node, a line between those that do not share a layer's matrices."""
    shown = min(count, WIDEST_NODE)
    axis = Axis.PP if layout.pp_size > 1 else Axis.DP
    groups: list[list[str]] = []
    for rank in range(first, first + shown):
        if not groups or rank % layout.tp_size == 0:
            groups.append([])
        groups[-1].append(str(layout.coordinates(rank)[axis]))
    more = " …" if shown < count else ""
    return "▕" + "│".join(" ".join(group) for group in groups) + f"{more}▏"


LABEL = 10
"""Characters of the column of labels."""
CLAUSES, BETWEEN, APART = "; ", " · ", "   "
"""What stands between the pieces of a line."""
LONGEST_PIECE = 44
"""Characters of a piece that is not broken."""
EXPERTS, CALIBRATED = "; with experts: ", "; calibrated on "
"""Where parts of the provenance of constants begin."""
WHOLE = "\u00a0"
"""A blank at which no line is broken."""
MOST_STAGES = 4
"""Stages whose memory is drawn; of more, the first, the fullest and the last."""
SMALL_PART = 0.005
"""Parts of a step below this share are not named."""
TIME_WORDS = {
    TimePart.TENSOR_PARALLEL: "tp",
    TimePart.CONTEXT_PARALLEL: "cp",
    TimePart.EXPERT_PARALLEL: "ep",
    TimePart.PIPELINE_TRANSFER: "pp",
    TimePart.DATA_PARALLEL: "dp",
}


@dataclass(frozen=True, slots=True)
class Page:
    """What the page shows."""

    run: PlannedRun
    """The plan and what the planner thought of it."""
    budget: RunBudget
    """Time, cost and checkpoints."""
    engine: str
    kept: str
    """Where the plan is kept, in words."""
    command: str
    """The next command; nothing where it is called without the reader's doing."""
    findings: tuple[Finding, ...] = ()
    """What speaks against the plan."""
    limits: Limits | None = None
    """The fewest nodes and the largest model, where they were asked for."""
    volume: str = ""
    """The volume that would be made for the run, in words."""
    warned: str = ""
    """What the check warns of though the plan can be made, in words."""


def say_page(page: Page) -> None:
    width = columns()
    head = head_words(page)
    lines = wrapped(_in_pieces(head, width - 2), width, rest="  ") if width else [head]
    say("\n".join(lines).replace(WHOLE, " "))
    say()
    for label, text in page_lines(page):
        first = f"{label:<{LABEL}}"
        # A command stays in one line, to be copied.
        if width and label != "next":
            lines = wrapped(_in_pieces(text), width, first)
        else:
            lines = [first + text]
        say("\n".join(lines).replace(WHOLE, " "))


def _in_pieces(text: str, longest: int = LONGEST_PIECE) -> str:
    """The text with blanks that do not break inside its short pieces, such as `dp 3 %`."""
    for between in (CLAUSES, BETWEEN, APART):
        pieces = text.split(between)
        text = between.join(
            piece.replace(" ", WHOLE) if len(piece) <= longest else piece for piece in pieces
        )
    for words in (" %", *RECOMPUTE_WORDS.values()):
        text = text.replace(words, words.replace(" ", WHOLE))
    return text


def head_words(page: Page, *, name: bool = True) -> str:
    """Name, where it is wanted, model, machines, engine."""
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


def page_lines(page: Page, *, pictures: bool = True) -> Iterator[tuple[str, str]]:
    """The lines of the page, with their labels; bars are drawn where pictures are wanted."""
    run, plan = page.run, page.run.plan
    origin = "planner" if run.searched else "you"
    yield "layout", f"{layout_words(plan.layout)}, {manner(plan)}   ({origin})"
    yield "", f"{'   '.join(node_pictures(plan.layout, plan.machines))}   {caption(plan.layout)}"
    batch = plan.batch
    where = plan.origins.get("training.global_batch_size", Origin.YOU)
    yield (
        "batch",
        f"{batch.global_batch_size:,} sequences = {batch.micro_batch_size:,} micro "
        f"× {batch.micro_batches:,} × dp {plan.layout.dp_size:,}, "
        f"{format_count(batch.tokens_per_step)} tokens a step   ({where})",
    )
    whose = plan.origins.get("training.learning_rate.peak", Origin.YOU)
    yield "learning", f"rate {schedule_words(plan)}   ({whose})"
    if run.chosen is not None:
        yield from _memory(run.chosen, pictures=pictures)
        yield from _step(run, run.chosen)
    yield "length", _length(page)
    yield from _saves(page)
    if page.limits is not None:
        yield "limits", limit_words(page)
    yield from _reasons(page)
    yield "kept", page.kept
    if page.warned:
        yield "check", page.warned
    if page.command:
        yield "next", page.command


def _memory(chosen: Priced, *, pictures: bool) -> Iterator[tuple[str, str]]:
    """A bar for each stage that matters, and the parts of the fullest."""
    need = chosen.memory
    room = need.headroom + need.fullest.total
    many = len(need.stages)
    shown = need.stages
    if many > MOST_STAGES:
        wanted = {0, need.fullest.index, many - 1}
        shown = tuple(stage for stage in need.stages if stage.index in wanted)
    width = len(f"stage {many - 1} of {many}")
    for position, stage in enumerate(shown):
        fullest = stage.index == need.fullest.index
        words = f"   {need.verdict.replace('-', ' ')}" if fullest else ""
        drawn = f"{bar(stage.total / room)}  " if pictures else ""
        yield (
            "" if position else "memory",
            f"{f'stage {stage.index} of {many}':<{width}}   {drawn}{gib(stage.total)} of "
            f"{gib(room)} GiB ± {spread(stage.total * need.error / GIB)}{words}",
        )
    yield "", memory_parts(need.fullest)


def memory_parts(stage: StageMemory) -> str:
    """The parts of a stage's memory in GiB."""
    return " · ".join(f"{part} {gib(size)}" for part, size in stage.parts.items() if size)


def _step(run: PlannedRun, chosen: Priced) -> Iterator[tuple[str, str]]:
    """The time of a step, its parts, and what that means for a GPU."""
    time = chosen.time
    yield "step", f"{step_words(run, chosen)}   {time_parts(chosen)}"
    peak = chosen.workload.hardware.peak_flops
    yield (
        "",
        f"{three(time.flops_per_gpu / 1e12)} TFLOP/s a GPU, {percent(time.flops_per_gpu / peak)} "
        f"of peak · {three(chosen.rate)} tokens/s a GPU",
    )


def step_words(run: PlannedRun, chosen: Priced) -> str:
    """The time of a step with what nine of ten runs, or its own steps, stay within."""
    known = run.time_error
    if known is not None and known.is_measured:
        return (
            f"{duration(chosen.time.total)}, nine of ten own steps within {known.nine_of_ten:.1%}"
        )
    within = f", nine of ten runs within ±{percent(known.nine_of_ten)}" if known else ""
    return f"{duration(chosen.time.total)}{within}"


def _better(page: Page, best: Priced) -> str:
    """What the planner would choose over a layout that was given or kept."""
    run = page.run
    if run.chosen is None:
        return ""
    gain = percent(best.rate / run.chosen.rate - 1)
    words = f"{named(best.candidate)}, micro batch {best.candidate.micro_batch_size}, recompute "
    words += f"{best.candidate.recompute}"
    if run.searched:
        return f"Kept from an earlier plan; a new search prefers {words}: {gain} faster (--again)."
    return f"Left to the planner (auto), it would be {words}: {gain} faster."


def time_parts(chosen: Priced) -> str:
    """The parts of a step as shares, the largest first."""
    total = chosen.time.total
    parts = sorted(chosen.time.parts.items(), key=lambda item: -item[1])
    return " · ".join(
        f"{TIME_WORDS.get(part, part)} {percent(seconds / total)}"
        for part, seconds in parts
        if seconds / total >= SMALL_PART
    )


def _length(page: Page) -> str:
    """Steps, days, node-hours and dollars."""
    plan, budget = page.run.plan, page.budget
    parts = [f"{plan.length.steps:,} steps", f"{format_count(plan.length.tokens)} tokens"]
    if page.run.chosen is None:
        return " · ".join([*parts, "no GPU: time and cost are not modelled"])
    if budget.duration is None:
        return " · ".join([*parts, "no end: failures come faster than it can save"])
    parts.append(length_words(budget.duration, budget.error))
    parts.append(f"{three(budget.node_hours)} node-hours")
    parts.append(cost_words(budget.cost, plan.machines.node_type))
    return " · ".join(parts)


def length_words(length: Duration, error: float) -> str:
    """The whole time with its parts in the same unit: `35 days ± 2 (training 34.4, saves 0.3)`."""
    size, _ = unit_of(length.total)
    parts = {"training": length.training, "saves": length.saving, "failures": length.failures}
    named = [f"{name} {three(seconds / size)}" for name, seconds in parts.items() if seconds]
    return f"{duration_with_error(length.total, error)} ({', '.join(named)})"


def cost_words(cost: Cost | None, node_type: str) -> str:
    """The cost with the date of its price."""
    if cost is None:
        return f"no list price for {node_type}: add yours to a catalog of your own"
    return f"${three(cost.usd)} at list price of {cost.as_of:%Y-%m} ({cost.region})"


def _saves(page: Page) -> Iterator[tuple[str, str]]:
    """How often, how large, how long on each tier, and what is lost."""
    every, saves = page.run.plan.save_every_steps, page.budget.saves
    if saves is None or page.run.chosen is None:
        yield "saves", f"every {every:,} steps"
        return
    budget = saves.budget
    reason = f"one failure in {duration(saves.between_failures)}"
    best = budget.best_every_steps
    if every == best:
        reason = f"best for {reason}"
    elif best is not None:
        reason = f"{reason}: {best:,} would be best"
    parts = [f"every {duration(every * page.run.chosen.time.total)} ({every:,} steps; {reason})"]
    parts.append(f"{three(budget.size / 1e9)} GB")
    if budget.write_seconds is not None:
        parts.append(f"{duration(budget.write_seconds)} to {saves.tier}")
    if budget.lost is not None:
        parts.append(lost_words(page, budget))
    on_volume = f", on {page.volume}" if page.volume else ""
    parts.append(f"{three(budget.capacity / TIB)} TiB kept{on_volume}")
    yield "saves", " · ".join(parts)
    others = [
        f"{tier} {duration(seconds)}"
        for tier, seconds in saves.write_seconds.items()
        if seconds is not None
    ]
    if others:
        yield "", f"a save, on the smallest volume: {' · '.join(others)}"


def lost_words(page: Page, budget: SaveBudget) -> str:
    """The shares of the time that saves and failures take."""
    if budget.lost is None:
        return ""
    failures = f"failures and restarts {percent_of(budget.lost.failures)}"
    if budget.write_seconds is None:
        return f"{failures} of the time; the bandwidth of the storage is not published"
    # A save that training does not wait for is reckoned as one that it does.
    most = "at most " if page.run.plan.spec.checkpoints.asynchronous else ""
    return f"saves take {most}{percent_of(budget.lost.saving)} of the time, {failures}"


def percent_of(share: float) -> str:
    """A small share with one digit: `0.4 %`."""
    return f"{100 * share:.1f} %"


def sources(run: PlannedRun, constants: TimingConstants) -> str:
    """What the constants of this model were fitted to; those of the other kind are left out."""
    plain, _, calibrated = constants.provenance.partition(CALIBRATED)
    dense, _, experts = plain.partition(EXPERTS)
    own = experts if run.plan.model.architecture.is_moe and experts else dense
    return f"{own}{CALIBRATED}{calibrated}" if calibrated else own


def limit_words(page: Page) -> str:
    """The fewest nodes, and the largest model of the same shape."""
    limits, machines = page.limits, page.run.plan.machines
    if limits is None:
        return ""
    nodes = f"fits no number of nodes that was tried ({ROUND}, up to {MOST_NODES:,})"
    fewest = limits.fewest
    if fewest is not None:
        only = " with fsdp only" if limits.shared_out is Sharding.FSDP else ""
        which = "and no fewer" if fewest.all_tried else "though not all fewer were tried"
        nodes = (
            f"fits {fewest.nodes:,} × {machines.node_type}{only}, {which}; "
            "more must divide evenly too"
        )
    largest = limits.largest_model
    if largest is None:
        return nodes
    shape = f"{largest.architecture.layers} layers × {largest.architecture.hidden_size:,}"
    up_to = "at least" if largest.largest_tried else "up to"
    return (
        f"{nodes}; on these {machines.nodes:,}, a model of this shape fits {up_to} "
        f"{format_count(largest.parameters)} parameters ({shape}: layers and width scaled alike"
        f"{'' if largest.largest_tried else '; the next size that divides well does not'})"
    )


def _reasons(page: Page) -> Iterator[tuple[str, str]]:
    """Why this layout, and how well the models were tested."""
    run, known = page.run, page.run.time_error
    if run.chosen is None or run.outcome is None or run.constants is None or known is None:
        return
    said = why(run.chosen, run.outcome, run.problem)
    if said:
        yield "why", "; ".join(said) + "."
    best = run.outcome.best
    if best is not None and best.rate > run.chosen.rate * (1 + WITHIN_NOISE):
        yield "", _better(page, best)
    tested = f"{percent(known.median)} off in the median, nine of ten within "
    tested += percent(known.nine_of_ten)
    if known.is_measured:
        tested = "measured with this layout"
    yield (
        "tested",
        f"step time {tested} ({sources(run, run.constants)}); {memory_words(run.chosen.memory)}",
    )


def memory_words(need: Memory) -> str:
    """How well the memory was tested, and what of its error bar is assumed."""
    tested = f"memory within {percent(need.tested)} in nine of ten published runs"
    if not need.untested:
        return tested
    return (
        f"{tested}, and {percent(need.assumed)} more assumed for what these hardly test: "
        f"{', '.join(need.untested)}"
    )
