# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial check`: find a run's errors before it uses a GPU."""

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from seatrial.checks.repairs.fix import MOST_ROUNDS, Fix
from seatrial.checks.rule import RepairKind
from seatrial.cli.options import Context, Json, Kubeconfig, Overrides, SpecFile, examples
from seatrial.cluster.errors import ClusterError
from seatrial.dataprep.drivers.driver import limit_threads
from seatrial.errors import ExitCode, UsageError
from seatrial.findings import Severity, has_errors
from seatrial.reports.terminal import (
    columns,
    count_line,
    counted,
    say,
    say_error,
    say_findings,
    say_following,
    say_json,
    say_text,
    seatrial_words,
)
from seatrial.sdk.check import Looked, Offer, Outcome, check_and_repair, text_of
from seatrial.sdk.data import missing_data_packages
from seatrial.sdk.output_files import write_new
from seatrial.spec.loader import byte_order_mark

app = typer.Typer(rich_markup_mode=None, add_completion=False)

INDENT = " " * 16
"""The indent of a change's effects, which follow the change."""

WriteFix = Annotated[
    bool,
    typer.Option("--fix", help="Apply fixes that do not change the run, and show the diff."),
]
Data = Annotated[
    bool,
    typer.Option("--data", help="Also check tokenizers, prepared data and corpora."),
]
Engine = Annotated[
    bool,
    typer.Option("--engine", help="Also have the engine parse the production arguments."),
]
Cluster = Annotated[
    bool,
    typer.Option("--cluster", help="Also check the cluster (read-only)."),
]


@app.command(
    epilog=examples("seatrial check run.yaml", "seatrial check run.yaml --data --engine --cluster")
)
def command(
    file: SpecFile,
    overrides: Overrides = None,
    fix: WriteFix = False,
    data: Data = False,
    engine: Engine = False,
    cluster: Cluster = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Check a run for errors before it uses a GPU. Each finding says how to fix it.

    Exit code 0 if there are no errors (warnings are allowed), 1 if there are.
    """
    began = time.monotonic()
    if fix and overrides:
        raise UsageError(
            "--fix changes the file, and overrides apply to this call only. Use one or the other."
        )
    if data:
        limit_threads()
    asked = cluster or bool(kubeconfig or context)
    if data and not missing_data_packages() and sys.stderr.isatty():
        say_error("Checking the data. This can take a minute if a server does not respond.")
    outcome = check_and_repair(
        file,
        tuple(overrides or ()),
        Looked(data, asked, kubeconfig, context, say_error),
        engine=engine,
        write=(lambda plan: _write(file, plan, is_shown=not as_json)) if fix else None,
    )
    if as_json:
        say_json(_data(outcome))
    else:
        _say(outcome, time.monotonic() - began, file, overrides or ())
    if outcome.trouble is not None:
        raise typer.Exit(_report_trouble(outcome.trouble, as_json=as_json))
    for missing in outcome.missing:
        # With --json, the message is part of the output.
        raise typer.Exit(missing.exit_code) if as_json else missing
    if has_errors(outcome.verdict.findings):
        raise typer.Exit(ExitCode.FINDINGS)


def _report_trouble(trouble: ClusterError, *, as_json: bool) -> int:
    """Print why the cluster could not be checked, after all other findings."""
    if not as_json:
        say_error("")
        say_findings(trouble.findings)
    return trouble.exit_code


def _write(file: Path, plan: Fix, *, is_shown: bool) -> None:
    """Show the diff of the fixes, then write the file."""
    tell = say if is_shown else lambda _="": None
    if not plan.changes:
        tell(f"{file} is unchanged: no finding can be fixed without changing the run.")
    else:
        tell(plan.diff(str(file)))
        if text_of(file) != plan.before:
            raise UsageError(f"{file} changed while it was being checked. Rerun the command.")
        write_new(file, byte_order_mark(file) + plan.broken.text, force=True)
        for change in plan.changes:
            words = " ".join(map(shlex.quote, change.repair.overrides))
            tell(f"fixed   {change.found.finding.code:<16} {words}")
        tell(f"Wrote {file}: {counted(len(plan.changes), 'change')}; the run stays the same.")
        if len(plan.changes) == MOST_ROUNDS:
            tell("There may be more fixes: rerun the command.")
    tell()


def _say(outcome: Outcome, seconds: float, file: Path, overrides: Sequence[str]) -> None:
    """Print the findings and the summary."""
    verdict, offers = outcome.verdict, outcome.offers
    for found, offer in zip(verdict.checked, offers, strict=True):
        say_findings([found.finding], sys.stdout)
        change = " ".join(map(shlex.quote, offer.overrides))
        if offer.kind == RepairKind.SAME_RUN:
            say(f"        fix:    {change}")
        elif change:
            say(f"        change: {change}")
            for effect in offer.effects:
                say_text(f"{effect[:1].upper()}{effect[1:]}", INDENT, INDENT, columns() or 100)
        elif found.finding.severity is not Severity.NOTE:
            say(f"        background: seatrial explain {found.finding.code}")
    if verdict.checked:
        say()
    unasked = outcome.is_incomplete
    nothing = "No problems found so far" if unasked else "No problems found"
    # The cluster's error is printed last, because the findings above are known without it.
    unanswered = outcome.trouble.findings if outcome.trouble is not None else ()
    every = [*verdict.findings, *unanswered] if verdict.findings else []
    summary = count_line(every) or nothing
    # The duration is for the person who waited, not for a file or a page of the documentation.
    took = f" in {seconds:.1f} s" if sys.stdout.isatty() else ""
    left = sum(verdict.not_run.values())
    reasons = ", ".join(verdict.not_run)
    rest = f", {left} not run ({reasons})" if left else ""
    say_text(f"{summary}{took}: {counted(verdict.rules_run, 'rule')}{rest}.", rest="  ")
    _say_next(outcome, file, overrides, unasked=unasked)


def _say_next(outcome: Outcome, file: Path, overrides: Sequence[str], *, unasked: bool) -> None:
    """Print the next step."""
    changes = sum(offer.kind == RepairKind.OTHER_RUN for offer in outcome.offers)
    if changes:
        what = "The change" if changes == 1 else f"The {changes} changes"
        makes = "makes" if changes == 1 else "make"
        say(f"{what} above {makes} this a different run, so --fix does not apply it.")
    if outcome.fix.changes and not outcome.is_fixed:
        say(outcome.fix.diff(str(file)))
        say(f"next  seatrial check {file} --fix   applies this diff; the run stays the same")
    elif has_errors(outcome.verdict.findings):
        say("next  fix the errors above and rerun this command")
    elif not unasked:
        say_following(seatrial_words("rehearse", file, *overrides))


def _data(outcome: Outcome) -> dict[str, Any]:
    """Return the result for `--json`."""
    verdict, fix = outcome.verdict, outcome.fix
    unasked = outcome.trouble.findings if outcome.trouble is not None else ()
    data = {
        "findings": [
            *(
                found.finding.to_dict() | _offer_data(offer)
                for found, offer in zip(verdict.checked, outcome.offers, strict=True)
            ),
            *(finding.to_dict() | _offer_data(Offer()) for finding in unasked),
        ],
        "changes": [
            {"code": change.found.finding.code, "overrides": list(change.repair.overrides)}
            for change in (fix.changes if outcome.is_fixed else ())
        ],
        "diff": fix.diff(fix.broken.file),
        "rules_run": verdict.rules_run,
        "not_run": verdict.not_run,
    }
    if outcome.missing:
        data["error"] = str(outcome.missing[0])
    return data


def _offer_data(offer: Offer) -> dict[str, Any]:
    return {
        "overrides": list(offer.overrides),
        "repair": offer.kind or None,
        "effects": list(offer.effects),
    }
