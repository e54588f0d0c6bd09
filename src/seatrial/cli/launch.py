# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial launch`: submit a run to its cluster, once."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from seatrial.cli.options import Context, Json, Kubeconfig, Overrides, SpecFile, Yes
from seatrial.engines.registry import ENGINES
from seatrial.rehearsal.rehearse import was_rehearsed
from seatrial.reports.terminal import (
    counted,
    say,
    say_error,
    say_findings,
    say_following,
    say_json,
    say_text,
    seatrial_words,
)
from seatrial.runs.launch.differences import FieldDifference
from seatrial.runs.launch.launcher import Launched
from seatrial.runs.ledger.host import KIND
from seatrial.sdk.plan import plan
from seatrial.sdk.runs import flags_to, launch

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def command(
    file: SpecFile,
    overrides: Overrides = None,
    yes: Yes = False,
    readmit: Annotated[
        list[str] | None,
        typer.Option(
            help="A node that an earlier attempt left out and that is mended; repeatable.",
            metavar="NODE",
        ),
    ] = None,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Submit a run to its cluster: what `seatrial render` shows is what is submitted.

    Launching twice does nothing. A changed spec is shown field by field, and asked about; with
    --yes it takes the place of the one before and goes on from the last checkpoint. A run that
    has failed or was stopped gets a new attempt. Needs the cluster extra.
    """

    def agreed(changes: list[FieldDifference]) -> bool:
        return yes or (not as_json and sys.stdin.isatty() and _ask(changes))

    done = launch(
        file,
        overrides or (),
        kubeconfig=kubeconfig,
        context=context,
        confirm=agreed,
        tell=say_error,
        readmit=readmit or (),
    )
    if as_json:
        findings = [finding.to_dict() for finding in done.findings]
        say_json(asdict(done) | {"findings": findings})
        return
    say_findings(done.findings)
    _conclude(done)
    if done.is_new and done.attempt == 1:
        _say_not_rehearsed(done.run, file, overrides or ())
    if done.kind == KIND:
        # A run on this host is found from the directory of its spec.
        name = done.run if file.parent == Path() else shlex.quote(str(file))
        say_following(f"seatrial status {name}")
    else:
        flags = flags_to(done.run, done.namespace, kubeconfig, context)
        say_following(f"seatrial status {done.run}{flags}")


def _ask(changes: list[FieldDifference]) -> bool:
    """Show what would change, and ask."""
    say("The run is there with another spec. This would change:")
    for change in changes:
        say_text(str(change), "  ", "      ")
    if not changes:
        say("  no field that the launched spec shows")
    return typer.confirm("Stop it, and go on with the new spec from the last checkpoint?")


def _say_not_rehearsed(run: str, file: Path, overrides: Sequence[str]) -> None:
    """Say that a run was not rehearsed which could have been."""
    if was_rehearsed(file.parent / ".seatrial" / run):
        return
    planned = plan(file, overrides)
    if not ENGINES[planned.spec.engine.name].no_rehearsal(planned):
        words = seatrial_words("rehearse", file, *overrides)
        # In one line, to be copied.
        say(f"  Not rehearsed: {words} tries it on a CPU first.")


def _conclude(done: Launched) -> None:
    if done.is_new:
        text = (
            f"Launched {done.run}, attempt {done.attempt}: {counted(done.objects, 'object')}, the "
            f"last a {done.kind}."
            if done.kind != KIND
            else f"Launched {done.run}, attempt {done.attempt}: torchrun on this host."
        )
        if done.attempt > 1:
            text += f" Before it, {done.why}."
        say_text(text, rest="  ")
        if done.excluded_nodes:
            say_text(f"It stays away from {', '.join(done.excluded_nodes)}.", "  ")
    else:
        say_text(
            f"Nothing to do: {done.run} is there with this spec, attempt {done.attempt}; "
            f"{done.why}.",
            rest="  ",
        )
