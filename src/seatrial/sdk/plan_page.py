# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""All that `seatrial plan` shows: the plan, why it won, its budget, and what speaks against it."""

from dataclasses import replace
from pathlib import Path

from seatrial.catalog.catalog import Catalog, default_catalog
from seatrial.checks.check import RULES, launch_refusals
from seatrial.checks.rule import Scope, Situation
from seatrial.engines.registry import ENGINES
from seatrial.findings import Severity
from seatrial.planning.plausibility import excessive
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.run_budget import budget_of
from seatrial.planning.search.sizing import limits_of
from seatrial.planning.search.verdicts import far_batch, lost_time, verdicts
from seatrial.reports.plan_phrases import new_volume_words
from seatrial.reports.plan_text import Page
from seatrial.runs.kept_plan import PlanBeside, Tell, plan_file, reuse_or_plan, write
from seatrial.sdk.plan import (
    Overrides,
    PathOrText,
    load_checked,
    override_texts,
    refuse_unsupported,
)


def plan_page(
    path: PathOrText,
    overrides: Overrides = (),
    *,
    again: bool = False,
    limits: bool = False,
    tell: Tell | None = None,
    catalog: Catalog | None = None,
) -> Page:
    """Plan a run with its alternatives and its budget, and keep the plan beside the spec.

    Args:
        path: The spec.
        overrides: Fields to set differently; a plan with any is not kept.
        again: Choose anew, though the kept plan still holds.
        limits: Also find the fewest nodes, and the largest model, that fit.
        tell: Told why a kept plan no longer holds, and why limits cannot be found.
        catalog: The facts; the usual ones when absent.
    """
    file, texts = Path(path), override_texts(overrides)
    facts = catalog or default_catalog()
    say = tell or (lambda _: None)
    loaded = load_checked(file, texts)
    planned = reuse_or_plan(resolve_basis(loaded, facts), file, again=again, alternatives=True)
    found, run = planned.found, planned.run
    refuse_unsupported(loaded, run.plan)
    if found.news and not texts and not again:
        say(found.news)
    kept = "not kept: overrides are for this call" if texts else _keep(planned, file)
    engine = ENGINES[run.plan.spec.engine.name]
    budget = budget_of(run, facts)
    situation = Situation(loaded, run, facts)
    page = Page(
        run,
        budget,
        f"{engine.name} {engine.version}",
        kept,
        "",
        (
            *found.findings,
            *run.plan.findings,
            *far_batch(loaded, run),
            *verdicts(loaded, run),
            *lost_time(loaded, run, budget.saves),
            *excessive(loaded, run, budget),
            # The plan itself is valid, and often made before the cluster is ready.
            *(replace(each, severity=Severity.WARNING) for each in launch_refusals(situation)),
        ),
        volume=new_volume_words(run.plan, facts),
        warned=_warned(situation),
    )
    return _with_limits(page, say) if limits else page


def _keep(planned: PlanBeside, file: Path) -> str:
    """Keep a new plan; where it is kept, in words, or why it is not."""
    plan = planned.run.plan
    # A kept file stays as it is: it says with which constants its choices were made.
    trouble = write(planned.found.inputs, planned.run, file) if planned.is_new else ""
    return trouble or f"{plan_file(file, plan.spec.name)}, {plan.digest[:19]}"


def _with_limits(page: Page, say: Tell) -> Page:
    """The page with the fewest nodes and the largest model, where memory is modelled."""
    problem = page.run.problem
    if problem.hardware is not None:
        return replace(page, limits=limits_of(problem, problem.hardware))
    say("--limits: there is no GPU, and of a host without any the memory is not modelled.")
    return page


def _warned(situation: Situation) -> str:
    """The codes of what the check would warn of, which is not the planner's to say."""
    found = (each for rule in RULES if rule.scope is Scope.STATIC for each in rule.look(situation))
    grave = (each.finding.code for each in found if each.finding.severity is not Severity.NOTE)
    codes = ", ".join(dict.fromkeys(map(str, grave)))
    return f"seatrial check warns of {codes}" if codes else ""
