# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Several plans side by side, for `--what-if` and `--compare`: each number with its error."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from seatrial.planning.planner import PlannedRun
from seatrial.planning.run_budget import RunBudget
from seatrial.planning.search.candidates import Priced
from seatrial.reports.plan_phrases import (
    GIB,
    duration_with_error,
    layout_words,
    spread,
    unseen_words,
    with_error,
)
from seatrial.reports.plan_text import FIT_WORDS, step_error
from seatrial.reports.tables import fits_terminal, name, number, say_table
from seatrial.reports.terminal import say_text
from seatrial.units import format_count

CUSTOM = "custom"
"""The name of a model without a preset, which needs its size."""
MACHINE = (name("model"), name("machine", rank=7), number("GPUs", rank=6))
"""The columns that are omitted if all plans share their value."""


class ComparedPlan(Protocol):
    """One of several plans, or the reason why there is none."""

    @property
    def cells(self) -> tuple[str, ...]:
        """The spec, or the value of each field that varies."""

    @property
    def run(self) -> PlannedRun | None:
        """The plan; None if the spec cannot be planned."""

    @property
    def budget(self) -> RunBudget | None:
        """Time and cost of the plan."""

    @property
    def refusal(self) -> str:
        """Why there is no plan; empty if there is one."""


def say_plans(plans: Sequence[ComparedPlan], headers: Sequence[str]) -> None:
    """Print the plans as a table, or as one block each if the terminal is too narrow.

    A model, node type or number of GPUs that all plans share is printed above the table.
    """
    machines = [_machine(plan.run) for plan in plans if plan.run is not None]
    common = [values[0] for values in map(list, zip(*machines, strict=True)) if _alike(values)]
    varied = [i for i, values in enumerate(zip(*machines, strict=True)) if not _alike(values)]
    columns = [
        *(name(header.rpartition(".")[2]) for header in headers),
        *(MACHINE[i] for i in varied),
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
    if common:
        say_text(", ".join(common))
    rows = [_row(plan, varied) for plan in plans]
    if not any(plan.budget is not None and plan.budget.cost is not None for plan in plans):
        # Without any price, the last column says nothing.
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    if fits_terminal(columns, rows):
        say_table(columns, rows)
    else:
        for plan in plans:
            _say_block(plan, headers, varied)
    _say_notes(plans)


def _alike(values: Sequence[str]) -> bool:
    return len(set(values)) == 1


def _say_block(plan: ComparedPlan, headers: Sequence[str], varied: Sequence[int]) -> None:
    """Print one plan, one fact per line."""
    pairs = zip(headers, plan.cells, strict=True)
    say_text(", ".join(f"{header.rpartition('.')[2]} {cell}" for header, cell in pairs), rest="  ")
    run, budget = plan.run, plan.budget
    if run is None or budget is None:
        say_text("no plan", "  ")
        return
    machine = _machine(run)
    lines = [", ".join(machine[i] for i in varied), layout_words(run.plan.layout)]
    if run.chosen is not None:
        micro, recompute, size, fits, step, rate, time, cost = _figures(run, budget)
        lines += [
            f"micro-batch {micro}, recompute {recompute}",
            f"{size} GiB, {fits}",
            f"step {step}",
            f"{rate} tokens/s per GPU",
            f"time {time}",
            f"cost {cost}",
        ]
    for line in filter(None, lines):
        say_text(line, "  ", "    ")


def _say_notes(plans: Sequence[ComparedPlan]) -> None:
    """Print why plans are missing, the meaning of the error bars, and the dates of the prices."""
    reasons: dict[str, list[str]] = {}
    for plan in plans:
        if plan.refusal:
            reasons.setdefault(plan.refusal, []).append(" ".join(plan.cells))
    for reason, cells in reasons.items():
        say_text(f"{', '.join(cells)}: {reason}", "no plan  ")
    priced = [plan.run for plan in plans if plan.run is not None and plan.run.chosen is not None]
    for words in dict.fromkeys(filter(None, map(unseen_words, priced))):
        say_text(f"±: {words} within this range.")
    prices = sorted({price for plan in plans for price in _price(plan)})
    if prices:
        say_text(f"Costs: {'; '.join(prices)}.")


def _price(plan: ComparedPlan) -> Iterator[str]:
    """Return the date and the region of the price."""
    if plan.budget is not None and plan.budget.cost is not None:
        yield f"list price of {plan.budget.cost.as_of:%Y-%m} ({plan.budget.cost.region})"


def _machine(run: PlannedRun) -> tuple[str, str, str]:
    """Return the model, the machines and the GPUs."""
    model, machines = run.plan.model, run.plan.machines
    accelerator = machines.accelerator or "process"
    custom = f" ({format_count(model.parameters)})" if model.name == CUSTOM else ""
    return (
        f"{model.name}{custom}",
        f"{machines.nodes:,} × {machines.node_type}",
        f"{machines.world_size:,} × {accelerator}",
    )


def _row(plan: ComparedPlan, varied: Sequence[int]) -> tuple[str, ...]:
    """Return the cells of one plan, with the model, machine and GPUs only if they vary."""
    run, budget = plan.run, plan.budget
    if run is None or budget is None:
        return (*plan.cells, *[""] * len(varied), "no plan", *[""] * 8)
    machine = [_machine(run)[i] for i in varied]
    return (*plan.cells, *machine, layout_words(run.plan.layout), *_figures(run, budget))


def _figures(run: PlannedRun, budget: RunBudget) -> tuple[str, ...]:
    """Return micro-batch, recompute, memory, step time, throughput, duration and cost."""
    chosen = run.chosen
    if chosen is None:
        return ("",) * 8
    error, need = step_error(run), chosen.memory
    size = need.fullest.total / GIB
    return (
        str(run.plan.batch.micro_batch_size),
        str(run.plan.recompute),
        f"{size:.1f} ± {spread(size * need.error)}",
        FIT_WORDS[need.verdict],
        duration_with_error(chosen.time.total, error),
        with_error(chosen.rate, error),
        duration_with_error(budget.duration.total, budget.error) if budget.duration else "never",
        f"${with_error(budget.cost.usd, budget.error)}" if budget.cost else "no price",
    )


def compared_data(plan: ComparedPlan, headers: Sequence[str]) -> dict[str, Any]:
    """Return one of several plans as plain data."""
    different = dict(zip(headers, plan.cells, strict=True))
    run, budget = plan.run, plan.budget
    if run is None or budget is None:
        return {"variant": different, "refusal": plan.refusal}
    machines = run.plan.machines
    return {
        "variant": different,
        "model": run.plan.model.name,
        "parameters": run.plan.model.parameters,
        "node_type": machines.node_type,
        "nodes": machines.nodes,
        "gpus": machines.world_size if machines.accelerator else 0,
        "layout": layout_words(run.plan.layout),
        "plan_digest": run.plan.digest,
        "micro_batch_size": run.plan.batch.micro_batch_size,
        "recompute": run.plan.recompute,
        **_estimates(run, run.chosen),
        "seconds": budget.duration.total if budget.duration else None,
        "training_seconds": budget.duration.training if budget.duration else None,
        "relative_error": budget.error if run.chosen else None,
        "cost_usd": budget.cost.usd if budget.cost else None,
    }


def _estimates(run: PlannedRun, chosen: Priced | None) -> dict[str, Any]:
    """Return memory and step time with their errors; None on a host without GPUs."""
    return {
        "memory_bytes": chosen.memory.fullest.total if chosen else None,
        "memory_relative_error": chosen.memory.error if chosen else None,
        "verdict": chosen.memory.verdict if chosen else None,
        "step_seconds": chosen.time.total if chosen else None,
        "step_relative_error": step_error(run) if chosen else None,
        "tokens_per_second_per_gpu": chosen.rate if chosen else None,
    }
