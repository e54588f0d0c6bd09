# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The content of `seatrial plan`: the plan, the reasons, its budget and its findings."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from seatrial.catalog.catalog import Catalog, default_catalog
from seatrial.checks.check import check, has_manifests, launch_refusals
from seatrial.checks.rule import Situation
from seatrial.engines.registry import ENGINES
from seatrial.findings import Finding, Severity, has_errors
from seatrial.planning.planner import PlannedRun
from seatrial.planning.plausibility import excessive
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.run_budget import budget_of
from seatrial.planning.search.sizing import limits_of
from seatrial.planning.search.verdicts import far_batch, lost_time, verdicts
from seatrial.reports.plan_phrases import new_volume_words, object_store_words
from seatrial.reports.plan_text import Page
from seatrial.reports.terminal import count_line, seatrial_words
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
        overrides: Overrides of spec fields; with any, the plan is not stored.
        again: Search again, even if the stored plan is still valid.
        limits: Also find the fewest nodes and the largest model that fit.
        tell: Called with the reason if a stored plan is outdated or limits cannot be found.
        catalog: The catalog. Default: the shipped one and the user's own.
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
    kept = "not stored: overrides apply to this call only" if texts else _keep(planned, file)
    engine = ENGINES[run.plan.spec.engine.name]
    budget = budget_of(run, facts)
    situation = Situation(loaded, run, facts)
    findings = (
        *found.findings,
        *run.plan.findings,
        *far_batch(loaded, run),
        *verdicts(loaded, run),
        *lost_time(loaded, run, budget.saves),
        *excessive(loaded, run, budget),
        *_refusals(situation),
    )
    page = Page(
        run,
        budget,
        f"{engine.name} {engine.version}",
        kept,
        "",
        findings,
        volume=new_volume_words(run.plan, facts),
        storage_price=object_store_words(budget.saves, facts),
    )
    more = _more_findings(file, texts, run, findings)
    if more:
        words = f"{count_line(more)} not shown here: {seatrial_words('check', file, *texts)}"
        page = replace(page, warned=words, fails_check=has_errors(more))
    return _with_limits(page, say) if limits else page


def _refusals(situation: Situation) -> list[Finding]:
    """Return why `launch` would reject the run.

    In a cluster these are warnings: the plan is valid, and often made before the cluster is ready.
    """
    found = launch_refusals(situation)
    if not has_manifests(situation):
        return found
    return [replace(each, severity=Severity.WARNING) for each in found]


def _keep(planned: PlanBeside, file: Path) -> str:
    """Store a new plan. Return its location, or why it is not stored."""
    plan = planned.run.plan
    # A stored plan is not rewritten: it records the constants of its choices.
    trouble = write(planned.found.inputs, planned.run, file) if planned.is_new else ""
    return trouble or f"{plan_file(file, plan.spec.name)}, {plan.digest[:19]}"


def _with_limits(page: Page, say: Tell) -> Page:
    """Add the fewest nodes and the largest model, if memory is modelled."""
    problem = page.run.problem
    if problem.hardware is not None:
        return replace(page, limits=limits_of(problem, problem.hardware))
    say("--limits needs GPUs: memory is not modelled for a host without GPUs.")
    return page


def _more_findings(
    file: Path, overrides: Sequence[str], run: PlannedRun, shown: Sequence[Finding]
) -> list[Finding]:
    """Return the findings that `check` adds to those shown."""
    # `utf-8-sig` drops a byte-order mark, as the loader of specs does.
    text = file.read_text(encoding="utf-8-sig")
    verdict = check(text, str(file), run.basis.catalog, overrides, planner=lambda _: run)
    known = {(finding.code, finding.rule) for finding in shown}
    return [each for each in verdict.findings if (each.code, each.rule) not in known]
