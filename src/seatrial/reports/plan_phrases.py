# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The numbers of a plan as text: days, dollars, shares, layouts."""

from itertools import groupby, pairwise

from seatrial.catalog.catalog import Catalog
from seatrial.catalog.storage import StorageKind
from seatrial.planning.layout import DEGREES, Layout
from seatrial.planning.options import NAMES, given_options
from seatrial.planning.plan import Origin, Plan
from seatrial.planning.planner import PlannedRun
from seatrial.planning.saving.run_saves import Saves
from seatrial.planning.saving.size import usd_per_month
from seatrial.planning.search.explain import percent
from seatrial.rendering.resources import capacity_bytes
from seatrial.spec.cluster import Operator
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.training import DecayStyle
from seatrial.units import format_count

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
GIB = 1 << 30
TIB = 1 << 40

SHARDING_WORDS = {
    Sharding.NONE: "no sharding",
    Sharding.OPTIMIZER: "distributed optimizer",
    Sharding.FSDP: "fully sharded (fsdp)",
}
RECOMPUTE_WORDS = {
    Recompute.NONE: "no recompute",
    Recompute.SELECTIVE: "selective recompute",
    Recompute.FULL: "full recompute",
}


def three(number: float) -> str:
    """Return a number with two or three significant digits: `37,300`, `4.28`, `12.3 M`."""
    if number == 0:
        return "0"
    if number >= 1e6:
        return format_count(round(number))
    shown = float(f"{number:.3g}")
    if abs(shown) >= 100:
        return f"{shown:,.0f}"
    if abs(shown) < 0.01:
        return f"{shown:.2g}"
    return f"{shown:.1f}" if abs(shown) >= 10 else f"{shown:.2f}"


def rate(number: float) -> str:
    """Return a learning rate as papers write it: `3e-4`, `1.25e-5`."""
    if number == 0 or number >= 0.1:
        return f"{number:g}"
    digits, _, power = f"{number:.3e}".partition("e")
    return f"{digits.rstrip('0').rstrip('.')}e{int(power)}"


def schedule_words(plan: Plan) -> tuple[str, str]:
    """Return the learning rate and the warm-up: `3e-4, cosine to 3e-5`, `715 steps of warm-up`."""
    schedule, length = plan.schedule, plan.length
    style, least = plan.spec.training.learning_rate.style, rate(schedule.minimum)
    falls = f"{style} to {least}"
    if style is DecayStyle.CONSTANT:
        falls = str(style)
    elif style is DecayStyle.INVERSE_SQUARE_ROOT:
        falls = f"{style}, at least {least}"
    elif style is DecayStyle.WSD:
        constant = length.first_step_from(schedule.decay_samples - schedule.anneal_samples)
        falls += f" in the last {_steps(length.steps_within(schedule.decay_samples) - constant)}"
    # If the decay ends with the run, the length of the run already states its last step.
    ends = length.steps_within(schedule.decay_samples)
    if style not in (DecayStyle.CONSTANT, DecayStyle.WSD) and ends != length.steps:
        falls += f" at step {ends:,}"
    warming = length.steps_within(schedule.warmup_samples)
    warmup = f"{_steps(warming)} of" if warming else "no"
    return f"{rate(schedule.peak)}, {falls}", f"{warmup} warm-up"


def early_batch_words(run: PlannedRun) -> list[str]:
    """Return the batch sizes in order: `first 512 for 23,842 steps of 3.38 s, to 100 B tokens`."""
    length, sequence = run.plan.length, run.plan.model.sequence_length
    times = run.phase_seconds or (None,) * len(length.phases)
    words: list[str] = []
    for (phase, after), seconds in zip(pairwise(length.phases), times, strict=False):
        steps = _steps(after.first_step - phase.first_step)
        steps += f" of {duration(seconds)}" if seconds else ""
        tokens = format_count(after.first_sample * sequence)
        when = "then" if words else "first"
        words.append(f"{when} {phase.global_batch_size:,} for {steps}, to {tokens} tokens")
    if words:
        last = run.plan.batch.global_batch_size
        words.append(f"then {last:,}; memory, step time and saves below are for this batch size")
    return words


def _steps(steps: int) -> str:
    return f"{steps:,} step{'s' * (steps != 1)}"


def unit_of(seconds: float) -> tuple[float, str]:
    """Return the unit for a duration: its seconds and its name."""
    for size, word in ((DAY, "days"), (HOUR, "hours"), (MINUTE, "min"), (1.0, "s")):
        if seconds >= 2 * size:
            return size, word
    return (1.0, "s") if seconds >= 0.1 else (1e-3, "ms")


def duration(seconds: float) -> str:
    """Return a duration: `35.4 days`, `95 min`, `0.42 s`."""
    size, word = unit_of(seconds)
    return f"{three(seconds / size)} {word}"


def duration_with_error(seconds: float, error: float) -> str:
    """Return a duration with its error bar in the same unit: `35.4 days ± 2.4`."""
    size, word = unit_of(seconds)
    return f"{three(seconds / size)} {word} ± {spread(seconds * error / size)}"


def with_error(number: float, error: float) -> str:
    """Return a number with its error bar in the same unit: `37,300 ± 5,600`, `1.37 M ± 0.21 M`."""
    size, unit = 1.0, ""
    for power, letter in ((1e6, "M"), (1e9, "B"), (1e12, "T")):
        if number >= power:
            size, unit = power, f" {letter}"
    return f"{three(number / size)}{unit} ± {spread(number * error / size)}{unit}"


def spread(number: float) -> str:
    """Return an error bar with two significant digits."""
    shown = float(f"{number:.2g}")
    return f"{shown:,.0f}" if shown >= 10 else f"{shown:.2g}"


def gib(size: float) -> str:
    """Return bytes in GiB, with one digit."""
    return f"{size / GIB:,.1f}"


def layout_words(layout: Layout) -> str:
    """Return the parallel degrees: `tp 4 · pp 1 · dp 4`."""
    return layout.words(*DEGREES, always=("tp", "pp", "dp"))


def whose_layout(run: PlannedRun) -> str:
    """Return who chose the sizes of the layout: `planner`, `you`, or `tp, pp: you`."""
    fields = {name: f"parallelism.{name}_size" for name in DEGREES if name not in ("etp", "dp")}
    given = [name for name, field in fields.items() if field in run.given_fields]
    if not given:
        return "planner" if run.searched else "you"
    is_open = any(field in run.basis.open_fields for field in fields.values())
    return f"{', '.join(given)}: you" if is_open else "you"


def unseen_words(run: PlannedRun) -> str:
    """Return the share of unseen runs that the error bar of the step time has covered."""
    unseen = run.problem.limits.unseen
    return f"{percent(unseen.share)} of unseen runs were" if unseen else ""


def manner(plan: Plan) -> str:
    """Return how the degrees are used: sequence parallelism, sharding, recompute."""
    words = [SHARDING_WORDS[plan.sharding], RECOMPUTE_WORDS[plan.recompute]]
    if plan.sequence_parallel:
        words.insert(0, "sequence parallel")
    return ", ".join(words)


def option_words(plan: Plan) -> str:
    """Return the performance options that are on, and which ones the spec sets."""
    options = given_options(plan.spec)
    given = [
        name.replace("_", " ")
        for name in NAMES
        if plan.origins.get(f"performance.{name}") is Origin.YOU
    ]
    who = f"{', '.join(given)}: you" if given else "planner"
    return f"{', '.join(options.words()) or 'none'}   ({who})"


def option_lines(run: PlannedRun) -> list[str]:
    """Return the options that are on and, with GPUs, those that a user could switch on."""
    gpu = run.plan.machines.accelerator
    off = ", ".join(each.words for each in run.options_off if each.is_possible and gpu)
    return [option_words(run.plan), *([f"off: {off}   (why: --json)"] if off else [])]


def stage_words(plan: Plan) -> str:
    """Return the layers of uneven stages: `17 layers in stage 0, 15 in stages 1–7`; else empty."""
    sizes = [len(stage.layers) for stage in plan.stages]
    if len(set(sizes)) == 1:
        return ""
    words: list[str] = []
    first = 0
    for size, group in groupby(sizes):
        last = first + len(list(group)) - 1
        stages = f"stage {first}" if first == last else f"stages {first}–{last}"
        words.append(f"{size}{'' if words else ' layers'} in {stages}")
        first = last + 1
    return ", ".join(words)


def object_store_words(saves: Saves | None, catalog: Catalog) -> str:
    """Return the list price of the checkpoints in an object store; empty for other storage."""
    if saves is None:
        return ""
    tier = catalog.storage(saves.tier)
    if tier.kind is not StorageKind.OBJECT:
        return ""
    if tier.price is None or saves.budget.usd_per_month is None:
        return f"no list price for {saves.tier}: add one to your own catalog"
    writes, source = saves.budget.usd_per_save, f"{tier.price.as_of}, {tier.price.region}"
    per_save = f" and ${three(writes)} of write operations per save" if writes is not None else ""
    month = f"${three(saves.budget.usd_per_month)} a month for these checkpoints"
    return f"{month}{per_save}, at the list price of {source}"


def new_volume_words(plan: Plan, catalog: Catalog) -> str:
    """Return the volume that a launch would create, with its list price; empty if one exists."""
    storage = plan.spec.cluster.storage
    if plan.machines.operator is Operator.TORCHRUN or storage.claim or storage.volume:
        return ""
    tier = catalog.storage(plan.machines.storage)
    if tier.needs_claim:
        return ""
    size = capacity_bytes(plan, tier)
    price = usd_per_month(size, tier)
    cost = f" (${three(price)} a month)" if price is not None else ""
    return f"a new volume of {three(size / TIB)} TiB{cost}"
