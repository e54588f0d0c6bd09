# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Several plans beside each other as a table: `--what-if` and `--compare`."""

from collections.abc import Sequence
from typing import Any

from seatrial.reports.plan_phrases import GIB, duration, layout_words, three
from seatrial.reports.plan_text import cost_words
from seatrial.reports.tables import name, number, say_table
from seatrial.reports.terminal import say, say_json, say_text
from seatrial.sdk.sweep import Sweep, Variant


def say_sweep(sweep: Sweep, *, as_json: bool) -> None:
    """Print plans as a table, or as data."""
    if as_json:
        say_json([_variant_data(variant, sweep.headers) for variant in sweep.variants])
        return
    _say_variants(sweep.variants, sweep.headers)
    note = _cost_note(sweep.variants)
    if note:
        say_text(note)
    say("next  seatrial plan with the values of one row, or these in the file")


def _say_variants(variants: Sequence[Variant], headers: Sequence[str]) -> None:
    """Print plans as a table. The first columns show the differences."""
    columns = [
        *(name(header.rpartition(".")[2]) for header in headers),
        name("layout"),
        number("micro", rank=3),
        name("recompute", rank=4),
        number("GiB", rank=2),
        name("fits"),
        number("step"),
        number("tokens/s/GPU", rank=5),
        number("time"),
        number("cost", rank=1),
    ]
    say_table(columns, [_row(variant) for variant in variants])
    reasons: dict[str, list[str]] = {}
    for variant in variants:
        if variant.refusal:
            reasons.setdefault(variant.refusal, []).append(" ".join(variant.cells))
    for reason, cells in reasons.items():
        say_text(f"{', '.join(cells)}: {reason}", "no plan  ")


def _row(variant: Variant) -> tuple[str, ...]:
    """Return one row of the table."""
    run, budget = variant.run, variant.budget
    if run is None or budget is None:
        return (*variant.cells, "no plan", *[""] * 8)
    plan, chosen = run.plan, run.chosen
    if chosen is None:
        return (*variant.cells, layout_words(plan.layout), *[""] * 8)
    return (
        *variant.cells,
        layout_words(plan.layout),
        str(plan.batch.micro_batch_size),
        str(plan.recompute),
        f"{chosen.memory.fullest.total / GIB:.1f}",
        chosen.memory.verdict.replace("-", " "),
        duration(chosen.time.total),
        three(chosen.rate),
        duration(budget.duration.total) if budget.duration else "no end",
        f"${three(budget.cost.usd)}" if budget.cost else "no price",
    )


def _variant_data(variant: Variant, headers: Sequence[str]) -> dict[str, Any]:
    """A plan of a sweep as plain data."""
    different = dict(zip(headers, variant.cells, strict=True))
    run, budget = variant.run, variant.budget
    if run is None or budget is None:
        return {"variant": different, "refusal": variant.refusal}
    chosen = run.chosen
    return {
        "variant": different,
        "layout": layout_words(run.plan.layout),
        "plan_digest": run.plan.digest,
        "micro_batch_size": run.plan.batch.micro_batch_size,
        "recompute": run.plan.recompute,
        "memory_bytes": chosen.memory.fullest.total if chosen else None,
        "verdict": chosen.memory.verdict if chosen else None,
        "step_seconds": chosen.time.total if chosen else None,
        "tokens_per_second_per_gpu": chosen.rate if chosen else None,
        "seconds": budget.duration.total if budget.duration else None,
        "training_seconds": budget.duration.training if budget.duration else None,
        "cost_usd": budget.cost.usd if budget.cost else None,
    }


def _cost_note(variants: Sequence[Variant]) -> str:
    """The date of the prices in a table."""
    dates = {
        cost_words(variant.budget.cost, "").partition(" at ")[2]
        for variant in variants
        if variant.budget is not None and variant.budget.cost is not None
    }
    return f"Costs: {'; '.join(sorted(dates))}." if dates else ""
