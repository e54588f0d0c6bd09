# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial launch`: submit a run to its cluster, or start it on this host."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from seatrial.cli.interrupts import on_interrupt
from seatrial.cli.options import Context, Json, Kubeconfig, Overrides, SpecFile, Yes, examples
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


@app.command(
    epilog=examples("seatrial launch run.yaml", "seatrial launch run.yaml --readmit node-7 --yes")
)
def command(
    file: SpecFile,
    overrides: Overrides = None,
    yes: Yes = False,
    readmit: Annotated[
        list[str] | None,
        typer.Option(
            help="Reuse a repaired node that an earlier attempt excluded. Repeatable.",
            metavar="NODE",
        ),
    ] = None,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Submit a run to its cluster, or start it on this host if its profile is local.

    Submits exactly what `seatrial render` prints. If the run already exists with the same spec,
    launch does nothing. If the spec changed, launch shows the differences and asks; after your
    confirmation (or with --yes) the new spec continues from the last checkpoint. A failed or
    stopped run gets a new attempt. Needs the cluster extra.
    """

    def agreed(changes: list[FieldDifference]) -> bool:
        return yes or (not as_json and sys.stdin.isatty() and _ask(changes))

    again = seatrial_words("launch", file, *overrides or ())
    kept = (
        "Objects that were already created stay; seatrial status shows them. A repeated launch "
        f"continues with them: {again}"
    )
    with on_interrupt(kept):
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
        # A run on this host is looked up in the directory of its spec.
        name = done.run if file.parent == Path() else shlex.quote(str(file))
        say_following(f"seatrial status {name}")
    else:
        flags = flags_to(done.run, done.namespace, kubeconfig, context)
        say_following(f"seatrial status {done.run}{flags}")


def _ask(changes: list[FieldDifference]) -> bool:
    """Show the differences and ask for confirmation."""
    say("This run was launched with a different spec. Changes:")
    for change in changes:
        say_text(str(change), "  ", "      ")
    if not changes:
        say("  none in the recorded fields")
    return typer.confirm("Stop it and continue with the new spec from the last checkpoint?")


def _say_not_rehearsed(run: str, file: Path, overrides: Sequence[str]) -> None:
    """Point out that the run was not rehearsed, if it can be."""
    if was_rehearsed(file.parent / ".seatrial" / run):
        return
    planned = plan(file, overrides)
    if not ENGINES[planned.spec.engine.name].no_rehearsal(planned):
        words = seatrial_words("rehearse", file, *overrides)
        # On one line, so that it can be copied.
        say(f"  Not rehearsed. To try it on a CPU first: {words}")


def _conclude(done: Launched) -> None:
    if done.is_new:
        text = (
            f"Launched {done.run}, attempt {done.attempt}: {counted(done.objects, 'object')}, "
            f"including the {done.kind}."
            if done.kind != KIND
            else f"Launched {done.run}, attempt {done.attempt}: torchrun on this host."
        )
        if done.attempt > 1:
            text += f" Reason: {done.why}."
        say_text(text, rest="  ")
        if done.gang:
            say_text(f"Gang scheduler, selected by gang: auto: {done.gang}.", "  ")
        if done.excluded_nodes:
            say_text(f"Excluded nodes: {', '.join(done.excluded_nodes)}.", "  ")
    else:
        say_text(
            f"{done.run} is already launched with this spec, attempt {done.attempt}: {done.why}.",
            rest="  ",
        )
