# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers of a plan as people say them: days, dollars, shares, layouts."""

from seatrial.catalog.catalog import Catalog
from seatrial.planning.layout import Layout
from seatrial.planning.plan import Plan
from seatrial.planning.saving.size import usd_per_month
from seatrial.rendering.resources import capacity_bytes
from seatrial.spec.cluster import Operator
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.training import DecayStyle
from seatrial.units import format_count

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
GIB = 1 << 30
TIB = 1 << 40

SHARDING_WORDS = {
    Sharding.NONE: "nothing shared out",
    Sharding.OPTIMIZER: "distributed optimizer",
    Sharding.FSDP: "fully sharded (fsdp)",
}
RECOMPUTE_WORDS = {
    Recompute.NONE: "no recompute",
    Recompute.SELECTIVE: "selective recompute",
    Recompute.FULL: "full recompute",
}


def three(number: float) -> str:
    """A number with three significant digits and separators: `37,300`, `4.28`, `12.3 M`."""
    if number == 0:
        return "0"
    if number >= 1e6:
        return format_count(round(number))
    shown = float(f"{number:.3g}")
    if abs(shown) >= 100:
        return f"{shown:,.0f}"
    return f"{shown:.1f}" if abs(shown) >= 10 else f"{shown:.2f}"


def rate(number: float) -> str:
    """A learning rate as it is written in papers: `3e-4`, `1.25e-5`."""
    if number == 0 or number >= 0.1:
        return f"{number:g}"
    digits, _, power = f"{number:.3e}".partition("e")
    return f"{digits.rstrip('0').rstrip('.')}e{int(power)}"


def schedule_words(plan: Plan) -> str:
    """The learning rate over the run: `3e-4, cosine to 3e-5, 715 steps of warm-up`."""
    schedule, size = plan.schedule, plan.batch.global_batch_size
    style, least = plan.spec.training.learning_rate.style, rate(schedule.minimum)
    falls = f"{style} to {least}"
    if style is DecayStyle.CONSTANT:
        falls = str(style)
    elif style is DecayStyle.INVERSE_SQUARE_ROOT:
        falls = f"{style}, at least {least}"
    elif style is DecayStyle.WSD:
        falls += f" in the last {_steps(schedule.anneal_samples, size)}"
    # Where the run and its decay end together, the length says when.
    ends = schedule.decay_samples // size
    if style not in (DecayStyle.CONSTANT, DecayStyle.WSD) and ends != plan.length.steps:
        falls += f" at step {ends:,}"
    warmup = (
        f"{_steps(schedule.warmup_samples, size)} of" if schedule.warmup_samples >= size else "no"
    )
    return f"{rate(schedule.peak)}, {falls}, {warmup} warm-up"


def _steps(samples: int, size: int) -> str:
    # Whole ones, as the engines are told.
    steps = samples // size
    return f"{steps:,} step{'s' * (steps != 1)}"


def unit_of(seconds: float) -> tuple[float, str]:
    """The unit in which a duration is said, as seconds and word."""
    for size, word in ((DAY, "days"), (HOUR, "hours"), (MINUTE, "min"), (1.0, "s")):
        if seconds >= 2 * size:
            return size, word
    return (1.0, "s") if seconds >= 0.1 else (1e-3, "ms")


def duration(seconds: float) -> str:
    """A duration: `35.4 days`, `95 min`, `0.42 s`."""
    size, word = unit_of(seconds)
    return f"{three(seconds / size)} {word}"


def duration_with_error(seconds: float, error: float) -> str:
    """A duration with its error bar in the same unit: `35.4 days ± 2.4`."""
    size, word = unit_of(seconds)
    return f"{three(seconds / size)} {word} ± {spread(seconds * error / size)}"


def spread(number: float) -> str:
    """An error bar, with two significant digits."""
    shown = float(f"{number:.2g}")
    return f"{shown:,.0f}" if shown >= 10 else f"{shown:.2g}"


def gib(size: float) -> str:
    """Bytes in GiB, with one digit."""
    return f"{size / GIB:,.1f}"


def layout_words(layout: Layout) -> str:
    """The parallel degrees: `tp 4 · pp 1 · dp 4`."""
    sizes = {"tp": layout.tp_size, "pp": layout.pp_size, "dp": layout.dp_size}
    more = {"vp": layout.vp_size, "cp": layout.cp_size, "ep": layout.ep_size}
    more |= {"etp": layout.etp_size}
    sizes |= {name: size for name, size in more.items() if size > 1}
    return " · ".join(f"{name} {size:,}" for name, size in sizes.items())


def manner(plan: Plan) -> str:
    """What belongs to the degrees, in words."""
    words = [SHARDING_WORDS[plan.sharding], RECOMPUTE_WORDS[plan.recompute]]
    if plan.sequence_parallel:
        words.insert(0, "sequence parallel")
    given = plan.spec.parallelism
    ends = (given.first_stage_layers, given.last_stage_layers)
    if ends != (None, None):
        sizes = [len(stage.layers) for stage in plan.stages]
        words.append(f"layers {sizes[0]} | {sizes[len(sizes) // 2]} each | {sizes[-1]}")
    return ", ".join(words)


def new_volume_words(plan: Plan, catalog: Catalog) -> str:
    """The volume that a launch would claim, with its list price; empty where one is there."""
    storage = plan.spec.cluster.storage
    if plan.machines.operator is Operator.TORCHRUN or storage.claim or storage.volume:
        return ""
    tier = catalog.storage(plan.machines.storage)
    size = capacity_bytes(plan, tier)
    price = usd_per_month(size, tier)
    cost = f" (${three(price)} a month)" if price is not None else ""
    return f"a new volume of {three(size / TIB)} TiB{cost}"
