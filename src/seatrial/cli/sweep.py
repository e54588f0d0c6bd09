# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial sweep`: launch the variants of a spec in turn, and compare them."""

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from seatrial.cli.interrupts import on_interrupt
from seatrial.cli.options import Context, Json, Kubeconfig, Overrides, SpecFile, Yes, examples
from seatrial.errors import ExitCode
from seatrial.reports.plan_phrases import (
    GIB,
    duration,
    duration_with_error,
    gib,
    layout_words,
    with_error,
)
from seatrial.reports.plan_table import compared_data, say_plans
from seatrial.reports.run_phrases import loss_words
from seatrial.reports.tables import name, number, say_table
from seatrial.reports.terminal import say, say_error, say_following, say_json, seatrial_words
from seatrial.runs.status.status import Status
from seatrial.sdk.variants import VariantRun, plan_variants, run_variants

app = typer.Typer(rich_markup_mode=None, add_completion=False)

COLUMNS = (
    name("variant"),
    name("layout"),
    number("step"),
    number("planned step", rank=2),
    number("GiB", rank=1),
    number("planned GiB", rank=3),
    number("loss"),
    name("state"),
)


@app.command(
    epilog=examples(
        "seatrial sweep run.yaml --plan", "seatrial sweep run.yaml training.benchmark_steps=50"
    )
)
def command(
    file: SpecFile,
    overrides: Overrides = None,
    only_plan: Annotated[
        bool, typer.Option("--plan", help="Compare the plans of the variants; launch nothing.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The report. Default: NAME-sweep.html."
        ),
    ] = None,
    yes: Yes = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Launch every variant in a spec in turn, wait for each, and compare them.

    The variants and their overrides are in the section `variants` of the spec. Prints planned and
    measured step time and memory, and writes a report. A variant that already succeeded is not
    launched again, so rerun the command to continue. Needs the report extra.
    """
    given = tuple(overrides or ())
    if only_plan:
        _plan(file, given, as_json=as_json)
        return
    again = shlex.join(["seatrial", "sweep", str(file), *given])
    with on_interrupt(f"The variant that was launched last keeps running. To continue: {again}"):
        done = run_variants(
            file,
            given,
            output=output,
            before=_announce,
            saw=_Printed(),
            confirm=yes,
            kubeconfig=kubeconfig,
            context=context,
            tell=say_error,
        )
    if as_json:
        page = str(done.page) if done.page else None
        say_json({"page": page, "runs": [run.to_dict() for run in done.runs]})
    else:
        _say_runs(done.runs)
        if done.page is not None:
            say(f"report  {done.page}")
    failed = [run for run in done.runs if not run.status.succeeded]
    if not as_json:
        for run in failed:
            say(f"next    seatrial diagnose {run.status.run}")
        if not failed and done.page is not None:
            say_following(f"open {done.page} in a browser", "next    ")
    if failed:
        raise typer.Exit(ExitCode.RUN_FAILED)


def _plan(file: Path, given: Sequence[str], *, as_json: bool) -> None:
    """Compare the plans of the variants. A variant without a plan is an error."""
    sweep = plan_variants(file, given)
    refused = any(variant.refusal for variant in sweep.variants)
    if as_json:
        say_json([compared_data(variant, sweep.headers) for variant in sweep.variants])
    else:
        say_plans(sweep.variants, sweep.headers)
        again = seatrial_words("sweep", file, *given)
        say_following("fix the variants without a plan in the spec" if refused else again)
    if refused:
        raise typer.Exit(ExitCode.FINDINGS)


def _announce(variant: str, number: int, total: int) -> None:
    say_error(f"── {number} of {total}  {variant}")


class _Printed:
    """Prints the state of a variant whenever it changes."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, found: Status) -> None:
        text = f"{found.run}: {found.state}, {found.running} of {found.wanted} running"
        if text != self._last:
            say_error(f"{datetime.now(UTC):%H:%M:%S}  {text}")
        self._last = text


def _say_runs(runs: Sequence[VariantRun]) -> None:
    """Print measured and planned values side by side."""
    rows = [_row(run) for run in runs]
    # A column without any value, such as a prediction on a host without GPUs, is left out.
    kept = [i for i in range(len(COLUMNS)) if any(row[i] for row in rows)]
    say_table([COLUMNS[i] for i in kept], [[row[i] for i in kept] for row in rows])


def _row(run: VariantRun) -> tuple[str, ...]:
    layout = layout_words(run.plan.layout)
    if run.chapter is None:
        return (run.variant, layout, "", "", "", "", "", run.status.state)
    now, forecast = run.chapter.snapshot, run.chapter.history.forecast
    return (
        run.variant,
        layout,
        duration(now.step_seconds) if now.step_seconds else "",
        duration_with_error(forecast.time.total, forecast.time.error) if forecast else "",
        gib(now.memory) if now.memory else "",
        with_error(forecast.memory.fullest.total / GIB, forecast.memory.error) if forecast else "",
        loss_words(now.loss),
        run.status.state,
    )
