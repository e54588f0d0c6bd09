# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Plans of years or of millions of dollars get a warning with the reason and a way out."""

import re

from seatrial.catalog.catalog import Catalog
from seatrial.codes.planning import PlanCode
from seatrial.findings import Finding, Severity
from seatrial.planning.planner import plan_run
from seatrial.planning.plausibility import MOST_DAYS, USUAL_DAYS, excessive
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.run_budget import budget_of
from seatrial.recipes.shipped import recipe, recipe_names
from seatrial.spec.loader import LoadedSpec, load
from tests.unit.planning.search.asked import opened

ONE_NODE = ("cluster.node_type=p5.48xlarge", "cluster.nodes=1")


def found(loaded: LoadedSpec, catalog: Catalog) -> tuple[list[Finding], float]:
    """The warnings about a spec, and the days of its plan."""
    run = plan_run(resolve_basis(loaded, catalog))
    budget = budget_of(run, catalog)
    days = budget.duration.total / 86_400 if budget.duration else 0.0
    return excessive(loaded, run, budget), days


def test_a_run_of_years_is_reported_with_nodes_and_tokens_that_work(catalog: Catalog) -> None:
    (warning,), days = found(opened(*ONE_NODE, "training.tokens=15T"), catalog)
    assert days > MOST_DAYS
    assert (warning.code, warning.severity) == (PlanCode.EXCESSIVE, Severity.WARNING)
    assert warning.where.field == "training.tokens"
    assert warning.value == f"{days:,.0f} days"
    assert "8 GPUs train" in warning.rule
    assert "the run has 15 T tokens" in warning.rule
    assert "are compute-optimal for" in warning.fix
    nodes = re.search(r"use about ([\d,]+) nodes", warning.fix)
    assert nodes is not None
    wide = ("cluster.node_type=p5.48xlarge", f"cluster.nodes={nodes[1].replace(',', '')}")
    findings, shorter = found(opened(*wide, "training.tokens=15T"), catalog)
    assert findings == []
    assert shorter < 1.5 * USUAL_DAYS


def test_nodes_that_nobody_has_are_not_proposed(catalog: Catalog) -> None:
    (warning,), _ = found(opened(*ONE_NODE, "training.tokens=9000T"), catalog)
    assert "nodes" not in warning.fix
    assert warning.fix.startswith("To finish in ")


def test_a_run_of_millions_of_dollars_is_reported(catalog: Catalog) -> None:
    wide = ("cluster.node_type=p5.48xlarge", "cluster.nodes=512", "model.preset=llama3-70b")
    (warning,), days = found(opened(*wide, "training.tokens=15T"), catalog)
    assert days <= MOST_DAYS
    assert re.search(r"and costs \$[\d.]+ M at list price", warning.rule)
    assert "its cost grows with the number of tokens and parameters" in warning.fix


def test_the_length_is_reported_where_it_is_set(catalog: Catalog) -> None:
    steps = ("training.tokens=null", "training.steps=100000000")
    (warning,), _ = found(opened(*ONE_NODE, *steps), catalog)
    assert warning.where.field == "training.steps"


def test_recipes_and_a_host_without_gpus_are_not_reported(catalog: Catalog) -> None:
    for name in recipe_names():
        assert found(load(recipe(name).path), catalog)[0] == []
