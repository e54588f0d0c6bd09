# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial plan`: layout, memory, time, cost and checkpoints of a run, and why."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from seatrial.catalog.catalog import Catalog, default_catalog
from seatrial.cli.options import Json, Overrides, SpecFile
from seatrial.cli.plan_sweep import say_sweep
from seatrial.engines.registry import ENGINES
from seatrial.errors import ExitCode, UsageError
from seatrial.findings import has_errors
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.run_budget import budget_of
from seatrial.planning.search.sizing import limits_of
from seatrial.planning.search.verdicts import far_batch, lost_time, verdicts
from seatrial.reports.plan_html import html_page, refuse_other_file
from seatrial.reports.plan_json import page_data
from seatrial.reports.plan_phrases import new_volume_words
from seatrial.reports.plan_text import Page, say_page
from seatrial.reports.terminal import (
    hides_next,
    say,
    say_error,
    say_findings,
    say_json,
    say_text,
    seatrial_words,
)
from seatrial.runs.kept_plan import find, plan_file, write
from seatrial.sdk.output_files import write_new
from seatrial.sdk.plan import load_checked, refuse_unsupported
from seatrial.sdk.plan_check import check_words

app = typer.Typer(rich_markup_mode=None, add_completion=False)

Compare = Annotated[
    list[Path] | None,
    typer.Option("--compare", metavar="OTHER.YAML", help="Plan another spec beside it."),
]
WhatIf = Annotated[
    list[str] | None,
    typer.Option(
        "--what-if",
        metavar="KEY=V1,V2,...",
        help="Plan once for each value, as a table; several of these are combined.",
    ),
]
Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write the plan with pictures as one HTML file."),
]
Limits = Annotated[
    bool,
    typer.Option("--limits", help="Also find the fewest nodes, and the largest model, that fit."),
]
Again = Annotated[
    bool, typer.Option("--again", help="Search anew, though the kept plan still holds.")
]


@app.command()
def command(
    file: SpecFile,
    overrides: Overrides = None,
    compare: Compare = None,
    what_if: WhatIf = None,
    html: Html = None,
    limits: Limits = False,
    again: Again = False,
    as_json: Json = False,
) -> None:
    """Find the fastest layout that fits; show its memory, time and cost, and why it won.

    The plan is kept beside the spec, and later commands use it until the spec changes.
    """
    given = overrides or []
    if what_if or compare:
        if html is not None or limits or again:
            raise UsageError(
                "--html, --limits and --again are of one plan, and --what-if and --compare make "
                "several. Give one kind at a time."
            )
        say_sweep([file, *(compare or ())], given, what_if or (), as_json=as_json)
        return
    if html is not None:
        refuse_other_file(html)
    page = _page(file, given, default_catalog(), again=again)
    if limits:
        page = _with_limits(page)
    if html is not None:
        write_new(html, html_page(page), force=True)
    _say_page(page, html, as_json=as_json)
    if has_errors(page.findings):
        raise typer.Exit(ExitCode.FINDINGS)


def _with_limits(page: Page) -> Page:
    """The page with the fewest nodes and the largest model, where memory is modelled."""
    problem = page.run.problem
    if problem.hardware is not None:
        return replace(page, limits=limits_of(problem, problem.hardware))
    say_error("--limits: there is no GPU, and of a host without any the memory is not modelled.")
    return page


def _say_page(page: Page, html: Path | None, *, as_json: bool) -> None:
    """Print one plan, and what speaks against it."""
    if as_json:
        say_json(page_data(page))
        return
    say_page(page)
    if html is not None:
        say_text(str(html), "pictures  ")
    if page.findings:
        say()
        say_findings(page.findings)


def _page(file: Path, overrides: Sequence[str], catalog: Catalog, *, again: bool) -> Page:
    """Plan the run; the plan is kept unless the call changes the spec."""
    loaded = load_checked(file, overrides)
    basis = resolve_basis(loaded, catalog)
    found = find(basis, file)
    kept_choices = None if again else found.choices
    run = plan_run(basis, calibration=found.calibration, kept=kept_choices, alternatives=True)
    refuse_unsupported(loaded, run.plan)
    if found.news and not overrides and not again:
        say_error(found.news)
    place = plan_file(file, run.plan.spec.name)
    kept = f"{place}, {run.plan.digest[:19]}"
    if overrides:
        kept = "not kept: overrides are for this call"
    elif kept_choices is None:
        # A kept file stays as it is: it says with which constants its choices were made.
        kept = write(found.inputs, run, file) or kept
    engine = ENGINES[run.plan.spec.engine.name]
    budget = budget_of(run, catalog)
    findings = (
        *found.findings,
        *run.plan.findings,
        *far_batch(loaded, run),
        *verdicts(loaded, run),
        *lost_time(loaded, run, budget.saves),
    )
    following = "" if hides_next() else seatrial_words("rehearse", file, *overrides)
    if has_errors(findings):
        following = "mend what is said below, then the same command again"
    return Page(
        run,
        budget,
        f"{engine.name} {engine.version}",
        kept,
        following,
        findings,
        volume=new_volume_words(run.plan, catalog),
        warned=check_words(file, overrides, run, findings),
    )
