# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The output of the full-size drill: memory by stage, largest tensors, traffic and assumptions."""

from collections.abc import Iterator

from seatrial.planning.memory.breakdown import MemoryFit
from seatrial.rehearsal.counted_figures import RankFigures
from seatrial.rehearsal.full_size import FullSize
from seatrial.reports.tables import name, number, say_table, text
from seatrial.reports.terminal import say, say_text
from seatrial.units import format_count

GIB, MIB = 1 << 30, 1 << 20
SHOWN_TENSORS = 6
SHOWN_TRAFFIC = 12
SMALLEST_SHOWN = 1 << 20
"""Bytes of a kind of traffic below which it is not listed."""
VERDICTS = {
    MemoryFit.FITS: "fits",
    MemoryFit.RISKY: "risky",
    MemoryFit.DOES_NOT_FIT: "does not fit",
}


def say_full_size(counted: FullSize) -> None:
    """Print what the engine counted, next to the plan's figures."""
    say()
    say_text(_headline(counted))
    say_table(COLUMNS, [_row(each) for each in counted.ranks])
    fullest = counted.fullest
    say()
    stage = fullest.distinct.stage
    say(f"Largest tensors at the peak of stage {stage} ({fullest.peak_moment})")
    say_table(
        (number("MiB"), number("count"), name("role"), text("module"), text("tensor")),
        list(_tensors(fullest)),
    )
    say()
    say(f"Communication of a rank of stage {stage} in {counted.micro_batches} micro batches")
    say_table(
        (
            name("pass"),
            name("kind"),
            name("group"),
            number("ranks", rank=1),
            number("count"),
            number("GiB"),
        ),
        list(_traffic(fullest)),
    )
    _say_sent(fullest)
    _say_flops(fullest)
    _say_limits(counted)
    say()


def _headline(counted: FullSize) -> str:
    executed, of = counted.micro_batches, counted.of_micro_batches
    batches = f"all {of}" if executed == of else f"{executed} of {of:,}"
    steady = "" if executed == of else ", which reaches the steady state of the pipeline"
    return (
        f"Counted by the engine, in GiB: the peak of a step with {batches} micro batches{steady}. "
        "Plan: the planner's estimate of the same tensors."
    )


COLUMNS = (
    number("stage"),
    number("ranks", rank=3),
    number("parameters", rank=2),
    number("weights"),
    number("gradients"),
    number("optimizer"),
    number("activations"),
    number("logits", rank=4),
    number("buffers", rank=5),
    number("peak"),
    number("plan"),
    name("peak in", rank=6),
    name("verdict"),
)


def _row(figures: RankFigures) -> tuple[str, ...]:
    count, planned = figures.count, figures.planned
    held = count.at_peak
    sizes = (held.weights, held.gradients, held.optimizer, held.activations, held.logits)
    return (
        str(figures.distinct.stage),
        f"{count.represents:,}",
        format_count(count.parameters),
        *(_gib(size) for size in (*sizes, held.buffers, count.peak)),
        "-" if planned is None else _gib(planned.allocated),
        figures.peak_moment.replace(" pass of micro batch", ""),
        "-" if figures.verdict is None else VERDICTS[figures.verdict],
    )


def _gib(size: int) -> str:
    return f"{size / GIB:.2f}"


def _tensors(figures: RankFigures) -> Iterator[tuple[str, ...]]:
    """Yield the largest tensors that depend on the pass."""
    held = [
        each for each in figures.count.largest if each.role in ("activations", "logits", "buffers")
    ]
    for each in held[:SHOWN_TENSORS]:
        yield (
            f"{each.size / MIB:,.0f}",
            str(each.count),
            each.role,
            each.module or "-",
            each.what,
        )


def _traffic(figures: RankFigures) -> Iterator[tuple[str, ...]]:
    rows = [row for row in figures.traffic if row.size >= SMALLEST_SHOWN]
    for row in rows[:SHOWN_TRAFFIC]:
        group = row.group.replace("_GROUP", "").lower().replace("_", " ")
        size = f"{row.size / GIB:,.2f}"
        kind = row.kind.replace("_", "-")
        yield row.during.value, kind, group, str(row.members), f"{row.count:,}", size


def _say_sent(figures: RankFigures) -> None:
    """Print the bytes that the rank sends, counted and planned."""
    if figures.sent:
        parts = [
            f"{each.purpose} {_gib(each.counted)} ({_gib(each.planned)})" for each in figures.sent
        ]
        say_text(f"GiB sent, counted (planned): {' · '.join(parts)}", rest="  ")


def _say_flops(figures: RankFigures) -> None:
    parts = [
        f"{kind.replace('_', ' ')} {flops / 1e12:,.1f}"
        for kind, flops in sorted(figures.count.flops.items(), key=lambda item: -item[1])
    ]
    say_text(f"TFLOP of this rank: {' · '.join(parts)}", rest="  ")


def _say_limits(counted: FullSize) -> None:
    """Print what was imitated, assumed and left out."""
    say_text(f"Imitated kernels: {', '.join(counted.imitated)}.", rest="  ")
    if counted.assumed:
        say_text(f"Assumed: {'; '.join(counted.assumed)}.", rest="  ")
    if counted.dropped:
        say_text(f"Left out: {'; '.join(counted.dropped)}.", rest="  ")
    seconds = sum(each.count.cpu_seconds for each in counted.ranks)
    most = max(each.count.resident for each in counted.ranks)
    say_text(
        f"{len(counted.ranks)} ranks, {counted.reused} of them reused from an earlier rehearsal: "
        f"{seconds:.0f} CPU seconds, at most {most / MIB:,.0f} MiB each. The verdict adds the "
        "plan's estimate for context, communicators and fragmentation.",
        rest="  ",
    )
