# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Everything that `seatrial plan` shows: the plan, its alternatives, budget and findings."""

from dataclasses import replace
from pathlib import Path

from seatrial.catalog.catalog import Catalog, default_catalog
from seatrial.checks.check import RULES
from seatrial.checks.rule import Scope, Situation
from seatrial.engines.registry import ENGINES
from seatrial.findings import Severity
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
    """Plan a run with its alternatives and its budget, and store the plan next to the spec.

    Args:
        path: The spec.
        overrides: Fields to override. A plan with overrides is not stored.
        again: True to plan again, even if the stored plan is still valid.
        limits: True to also find the fewest nodes and the largest model that fit.
        tell: Receives the reasons why a stored plan is invalid or limits are unavailable.
        catalog: The catalog to use. Default: the shipped one with your entries.
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
    kept = "not kept: overrides apply to this call only" if texts else _keep(planned, file)
    engine = ENGINES[run.plan.spec.engine.name]
    budget = budget_of(run, facts)
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
        ),
        volume=new_volume_words(run.plan, facts),
        warned=_warned(Situation(loaded, run, facts)),
    )
    return _with_limits(page, say) if limits else page


def _keep(planned: PlanBeside, file: Path) -> str:
    """Store a new plan. Return its file and digest, or the reason why it was not stored."""
    plan = planned.run.plan
    # Leave an existing file unchanged: it records the constants of its choices.
    trouble = write(planned.found.inputs, planned.run, file) if planned.is_new else ""
    return trouble or f"{plan_file(file, plan.spec.name)}, {plan.digest[:19]}"


def _with_limits(page: Page, say: Tell) -> Page:
    """Add the fewest nodes and the largest model, if memory is modelled."""
    problem = page.run.problem
    if problem.hardware is not None:
        return replace(page, limits=limits_of(problem, problem.hardware))
    say("--limits needs GPUs: memory on a host without GPUs is not modelled.")
    return page


def _warned(situation: Situation) -> str:
    """Return the codes that `seatrial check` would warn about."""
    found = (each for rule in RULES if rule.scope is Scope.STATIC for each in rule.look(situation))
    grave = (each.finding.code for each in found if each.finding.severity is not Severity.NOTE)
    codes = ", ".join(dict.fromkeys(map(str, grave)))
    return f"seatrial check warns about {codes}" if codes else ""
