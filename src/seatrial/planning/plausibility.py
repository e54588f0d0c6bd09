# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Warns about plans that take longer or cost more than anyone is likely to intend."""

import math

from seatrial.codes.planning import PlanCode
from seatrial.findings import Finding, Severity
from seatrial.planning.planner import PlannedRun
from seatrial.planning.run_budget import RunBudget
from seatrial.spec.loader import LoadedSpec
from seatrial.units import format_count

DAY = 86_400.0
MOST_DAYS = 180
"""Longer than published training runs: BLOOM 176B took 3.5 months (arXiv 2211.05100)."""
MOST_DOLLARS = 5e6
"""A list price that is more often a mistake than a budget."""
USUAL_DAYS = 90
"""The duration for which a warning proposes nodes and tokens."""
MOST_NODES = 4_096
"""The most nodes to propose."""
OPTIMAL_TOKENS = 20
"""Compute-optimal tokens per parameter (arXiv 2203.15556)."""
MANY_TOKENS = 10 * OPTIMAL_TOKENS
"""Tokens per parameter above which the warning states the compute-optimal number."""


def excessive(loaded: LoadedSpec, run: PlannedRun, budget: RunBudget) -> list[Finding]:
    """Return a warning if the run takes more than half a year or costs millions of dollars."""
    if budget.duration is None:
        return []
    days = budget.duration.total / DAY
    dollars = budget.cost.usd if budget.cost else 0.0
    if days <= MOST_DAYS and dollars <= MOST_DOLLARS:
        return []
    tokens, machines = run.plan.length.tokens, run.plan.machines
    gpus = machines.nodes * machines.processes_per_node
    price = f" and costs ${dollars / 1e6:,.1f} M at list price" if dollars >= 1e6 else ""
    rule = (
        f"the run takes {days:,.0f} days{price}: {gpus:,} GPUs train "
        f"{tokens / budget.duration.total:,.0f} tokens/s, and the run has {format_count(tokens)} "
        "tokens."
    )
    fix = _fix(run, days) + _optimal(run)
    value = f"{days:,.0f} days"
    where = loaded.where(_length_field(loaded))
    return [Finding(PlanCode.EXCESSIVE, Severity.WARNING, where, rule, value, fix)]


def _fix(run: PlannedRun, days: float) -> str:
    """Return a fix that shortens the run or makes it cheaper."""
    if days <= MOST_DAYS:
        return (
            "Check the length of the run; its cost grows with the number of tokens and parameters."
        )
    fewer = format_count(int(run.plan.length.tokens * USUAL_DAYS / days))
    nodes = math.ceil(run.plan.machines.nodes * days / USUAL_DAYS)
    if nodes > MOST_NODES:
        return f"To finish in {USUAL_DAYS} days, use about {fewer} tokens, or a smaller model."
    return f"To finish in {USUAL_DAYS} days, use about {nodes:,} nodes, or about {fewer} tokens."


def _optimal(run: PlannedRun) -> str:
    """Return a sentence with the compute-optimal number of tokens if the run has far more."""
    parameters = run.plan.model.parameters
    if run.plan.length.tokens <= MANY_TOKENS * parameters:
        return ""
    optimal = format_count(OPTIMAL_TOKENS * parameters)
    return f" About {optimal} tokens are compute-optimal for {format_count(parameters)} parameters."


def _length_field(loaded: LoadedSpec) -> str:
    training = loaded.spec.training
    given = (name for name in ("steps", "samples", "tokens") if getattr(training, name) is not None)
    return f"training.{next(given, 'tokens')}"
