# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial plan`: layout, memory, time, cost and checkpoints of a run, and why."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from seatrial.catalog.catalog import Catalog, default_catalog
from seatrial.checks.check import RULES
from seatrial.checks.rule import Scope, Situation
from seatrial.cli.options import Json, Overrides, SpecFile
from seatrial.cli.plan_sweep import (
    Variant,
    combinations,
    cost_note,
    refused,
    say_variants,
    variant_data,
)
from seatrial.engines.registry import ENGINES
from seatrial.errors import ExitCode, FindingsError, UsageError
from seatrial.findings import Severity, has_errors
from seatrial.planning.search.budget import budget_of
from seatrial.planning.search.planner import plan_run
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
    catalog, given = default_catalog(), overrides or []
    if what_if or compare:
        if html is not None or limits or again:
            raise UsageError(
                "--html, --limits and --again are of one plan, and --what-if and --compare make "
                "several. Give one kind at a time."
            )
        variants, headers = _sweep([file, *(compare or ())], given, what_if or (), catalog)
        _say_table(variants, headers, as_json)
        if not any(variant.run for variant in variants):
            raise typer.Exit(ExitCode.FINDINGS)
        return
    if html is not None:
        refuse_other_file(html)
    page = _page(file, given, catalog, again=again)
    if limits and page.run.problem.hardware is None:
        say_error(
            "--limits: there is no GPU, and of a host without any the memory is not modelled."
        )
    elif limits and page.run.problem.hardware is not None:
        page = replace(page, limits=limits_of(page.run.problem, page.run.problem.hardware))
    if html is not None:
        write_new(html, html_page(page), force=True)
    if as_json:
        say_json(page_data(page))
    else:
        say_page(page)
        if html is not None:
            say_text(str(html), "pictures  ")
    if page.findings and not as_json:
        say()
        say_findings(page.findings)
    if has_errors(page.findings):
        raise typer.Exit(ExitCode.FINDINGS)


def _page(file: Path, overrides: Sequence[str], catalog: Catalog, *, again: bool) -> Page:
    """Plan the run; the plan is kept unless the call changes the spec."""
    loaded = load_checked(file, overrides)
    found = find(loaded, catalog, file)
    kept_choices = None if again else found.choices
    run = plan_run(
        loaded, catalog, calibration=found.calibration, kept=kept_choices, alternatives=True
    )
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
        warned=_warned(Situation(loaded, run, catalog)),
    )


def _warned(situation: Situation) -> str:
    """The codes of what the check would warn of, which is not the planner's to say."""
    found = (each for rule in RULES if rule.scope is Scope.STATIC for each in rule.look(situation))
    grave = (each.finding.code for each in found if each.finding.severity is not Severity.NOTE)
    codes = ", ".join(dict.fromkeys(map(str, grave)))
    return f"seatrial check warns of {codes}" if codes else ""


def _sweep(
    files: list[Path], given: Sequence[str], what_if: Sequence[str], catalog: Catalog
) -> tuple[list[Variant], list[str]]:
    """Every spec with every combination of values, and what the first columns are called."""
    several = len(files) > 1
    headers = ["spec"] * several + [change.partition("=")[0] for change in what_if]
    variants = []
    for file in files:
        for more in combinations(what_if, given):
            values = tuple(change.partition("=")[2] for change in more)
            cells = (str(file), *values) if several else values
            variants.append(_variant(file, [*given, *more], cells, catalog))
    return variants, headers


def _variant(
    file: Path, overrides: Sequence[str], cells: tuple[str, ...], catalog: Catalog
) -> Variant:
    """One plan of several; a spec that cannot be planned takes its line all the same."""
    try:
        loaded = load_checked(file, overrides)
        found = find(loaded, catalog, file)
        run = plan_run(loaded, catalog, calibration=found.calibration)
        refuse_unsupported(loaded, run.plan)
    except FindingsError as error:
        return refused(cells, error)
    return Variant(cells, run, budget_of(run, catalog))


def _say_table(variants: list[Variant], headers: list[str], as_json: bool) -> None:
    """Print several plans."""
    if as_json:
        say_json([variant_data(variant, headers) for variant in variants])
        return
    say_variants(variants, headers)
    note = cost_note(variants)
    if note:
        say_text(note)
    say("next  seatrial plan with the values of one row, or these in the file")
