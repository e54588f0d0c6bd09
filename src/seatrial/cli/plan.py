# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial plan`: the layout, memory, time, cost and saves of a run, and the reasons."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from seatrial.cli.options import Json, Overrides, SpecFile, examples
from seatrial.errors import ExitCode, UsageError
from seatrial.findings import has_errors
from seatrial.reports.plan_html import html_page, refuse_other_file
from seatrial.reports.plan_json import page_data
from seatrial.reports.plan_table import compared_data, say_plans
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
from seatrial.sdk.output_files import write_new
from seatrial.sdk.plan_page import plan_page
from seatrial.sdk.sweep import sweep_plans

app = typer.Typer(rich_markup_mode=None, add_completion=False)

Compare = Annotated[
    list[Path] | None,
    typer.Option("--compare", metavar="OTHER.YAML", help="Compare with the plan for another spec."),
]
WhatIf = Annotated[
    list[str] | None,
    typer.Option(
        "--what-if",
        metavar="KEY=V1,V2,...",
        help="Compare plans for several values of a field. Repeat it to plan all combinations.",
    ),
]
Html = Annotated[
    Path | None,
    typer.Option("--html", metavar="FILE", help="Write the plan with pictures to an HTML file."),
]
Limits = Annotated[
    bool,
    typer.Option("--limits", help="Also find the fewest nodes and the largest model that fit."),
]
Again = Annotated[
    bool, typer.Option("--again", help="Search again, even if the kept plan is still valid.")
]


@app.command(
    epilog=examples(
        "seatrial plan run.yaml", "seatrial plan run.yaml --what-if cluster.nodes=2,4,8"
    )
)
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
    """Find the fastest layout that fits, and show its memory, time, cost and the reasons.

    Keeps the plan next to the spec. Later commands use it until the spec changes.
    """
    given = overrides or []
    if what_if or compare:
        if html is not None or limits or again:
            raise UsageError(
                "--html, --limits and --again apply to a single plan; --what-if and --compare make "
                "several. Use options from only one of these groups."
            )
        sweep = sweep_plans([file, *(compare or ())], what_if or (), given)
        if as_json:
            say_json([compared_data(variant, sweep.headers) for variant in sweep.variants])
        else:
            say_plans(sweep.variants, sweep.headers)
            say("next  copy the values of one row to the spec, then run seatrial plan")
        if not any(variant.run for variant in sweep.variants):
            raise typer.Exit(ExitCode.FINDINGS)
        return
    if html is not None:
        refuse_other_file(html)
    page = plan_page(file, given, again=again, limits=limits, tell=say_error)
    following = "check" if page.fails_check else "rehearse"
    page = replace(page, command=_next(page, seatrial_words(following, file, *given)))
    if html is not None:
        write_new(html, html_page(page), force=True)
    _say_page(page, html, as_json=as_json)
    if has_errors(page.findings):
        raise typer.Exit(ExitCode.FINDINGS)


def _next(page: Page, command: str) -> str:
    """Return the next step. Empty if the caller of this command prints it."""
    if has_errors(page.findings):
        return "fix the errors below and rerun this command"
    return "" if hides_next() else command


def _say_page(page: Page, html: Path | None, *, as_json: bool) -> None:
    """Print one plan and its findings."""
    if as_json:
        say_json(page_data(page))
        return
    say_page(page)
    if html is not None:
        say_text(str(html), "pictures  ")
    if page.findings:
        say()
        say_findings(page.findings)
