# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial check`: every contract of a run, before a GPU is asked for."""

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from seatrial.checks.check import NO_ANSWER
from seatrial.checks.repairs.fix import MOST_ROUNDS, Fix
from seatrial.checks.rule import RepairKind
from seatrial.cli.options import Context, Json, Kubeconfig, Overrides, SpecFile
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
from seatrial.sdk.check import ABSENT, Looked, Offer, Outcome, check_and_repair, text_of
from seatrial.sdk.data import missing_data_packages
from seatrial.sdk.output_files import write_new
from seatrial.spec.loader import byte_order_mark

app = typer.Typer(rich_markup_mode=None, add_completion=False)

INDENT = " " * 16
"""Before what a change does, which stands below the change."""

WriteFix = Annotated[
    bool,
    typer.Option("--fix", help="Write respellings that leave the run the same, after their diff."),
]
Data = Annotated[
    bool,
    typer.Option("--data", help="Also look at tokenizers, prepared data and corpora from here."),
]
Engine = Annotated[
    bool,
    typer.Option("--engine", help="Also ask the engine about the production arguments."),
]
Cluster = Annotated[
    bool,
    typer.Option("--cluster", help="Also look at the cluster; nothing is changed there."),
]


@app.command()
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
    """Check every contract of a run before a GPU is asked for; each finding says what to do.

    Exit code 0 when nothing is wrong or there are only warnings, 1 with errors.
    """
    began = time.monotonic()
    if fix and overrides:
        raise UsageError("--fix changes the file, and overrides are for this call. Give one kind.")
    if data:
        limit_threads()
    asked = cluster or bool(kubeconfig or context)
    if data and not missing_data_packages() and sys.stderr.isatty():
        say_error("Looking at the data; where a network does not answer, that takes a minute.")
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
        raise typer.Exit(_told(outcome.trouble, as_json=as_json))
    for missing in outcome.missing:
        # Data for a program have the words among them.
        raise typer.Exit(missing.exit_code) if as_json else missing
    if has_errors(outcome.verdict.findings):
        raise typer.Exit(ExitCode.FINDINGS)


def _told(trouble: ClusterError, *, as_json: bool) -> int:
    """The exit code of a cluster that could not be asked, which is told after the rest."""
    if not as_json:
        say_error("")
        say_findings(trouble.findings)
    return trouble.exit_code


def _write(file: Path, plan: Fix, *, is_shown: bool) -> None:
    """Show the diff of a fix, then write exactly that."""
    tell = say if is_shown else lambda _="": None
    if not plan.changes:
        tell(f"Nothing changed in {file}: no finding is about the spelling alone.")
    else:
        tell(plan.diff(str(file)))
        if text_of(file) != plan.before:
            raise UsageError(f"{file} has changed since it was read. Run the command again.")
        write_new(file, byte_order_mark(file) + plan.broken.text, force=True)
        for change in plan.changes:
            words = " ".join(map(shlex.quote, change.repair.overrides))
            tell(f"fixed   {change.found.finding.code:<16} {words}")
        tell(f"Wrote {file}: {counted(len(plan.changes), 'change')}, and the run is the same.")
        if len(plan.changes) == MOST_ROUNDS:
            tell("There may be more: run it again.")
    tell()


def _say(outcome: Outcome, seconds: float, file: Path, overrides: Sequence[str]) -> None:
    """The verdict for a person."""
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
    unasked = any(why == NO_ANSWER or why.endswith(ABSENT) for why in verdict.not_run)
    nothing = "Nothing found so far" if unasked else "Nothing speaks against this run"
    said = count_line(verdict.findings) or nothing
    # How long it took is for who waited, not for a file or a page of the documentation.
    took = f" in {seconds:.1f} s" if sys.stdout.isatty() else ""
    left = sum(verdict.not_run.values())
    reasons = ", ".join(verdict.not_run)
    rest = f", {left} not run ({reasons})" if left else ""
    say_text(f"{said}{took}: {counted(verdict.rules_run, 'rule')}{rest}.", rest="  ")
    _say_next(outcome, file, overrides, unasked=unasked)


def _say_next(outcome: Outcome, file: Path, overrides: Sequence[str], *, unasked: bool) -> None:
    """What to do now."""
    changes = sum(offer.kind == RepairKind.OTHER_RUN for offer in outcome.offers)
    if changes:
        what = "The change" if changes == 1 else f"The {changes} changes"
        makes = "makes" if changes == 1 else "make"
        say(f"{what} above {makes} this another run: you decide, --fix does not write it.")
    if outcome.fix.changes and not outcome.is_fixed:
        say(outcome.fix.diff(str(file)))
        say(f"next  seatrial check {file} --fix   writes this diff; the run stays the same")
    elif has_errors(outcome.verdict.findings):
        say("next  fix the errors above, then run the same command again")
    elif not unasked:
        say_following(seatrial_words("rehearse", file, *overrides))


def _data(outcome: Outcome) -> dict[str, Any]:
    """The verdict for a program."""
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
