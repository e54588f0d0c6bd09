# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial delete`: remove a run from its cluster; volumes stay unless told."""

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from seatrial.cli.cluster_options import Context, Kubeconfig, Namespace, Run, Yes, meant
from seatrial.cli.output import counted, say, say_json, say_text
from seatrial.cli.parameters import Json
from seatrial.errors import UsageError
from seatrial.runs.local_launch import forget_here
from seatrial.runs.stop import Removal, delete, removal

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def command(
    run: Run,
    volumes: Annotated[
        bool,
        typer.Option("--volumes", help="Delete its volume claim too, with all checkpoints."),
    ] = False,
    yes: Yes = False,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Delete a run: its job, all that was made for it, and its ledger. Its volume stays.

    Asks first. A volume whose class says Retain outlives even --volumes.
    """
    chosen = meant(run, namespace, kubeconfig, context)
    if chosen.here is not None:
        done = Removal((f"directory {chosen.here.directory}",), ("the run's own files",))
        if not yes:
            _ask(chosen.name, done, as_json=as_json)
        forget_here(chosen.here)
    else:
        site = chosen.site
        planned = removal(site, chosen.name, volumes=volumes)
        if not yes:
            _ask(chosen.name, planned, as_json=as_json)
        done = delete(site, chosen.name, volumes=volumes)
    if as_json:
        say_json(asdict(done) | {"run": chosen.name})
        return
    say_text(f"Deleted {chosen.name}: {counted(len(done.removed), 'object')}.", rest="  ")
    for kept in done.kept:
        say(f"  kept: {kept}")
    if done.unseen:
        say_text(f"not looked at, for lack of rights: {', '.join(done.unseen)}", "  ", "    ")
    if chosen.here is None:
        say("next  seatrial list")


def _ask(run: str, planned: Removal, *, as_json: bool) -> None:
    """Show what would go, and ask; without a terminal nobody can answer."""
    if as_json or not sys.stdin.isatty():
        raise UsageError(f"deleting {run} has to be confirmed. Add --yes.")
    say(f"This deletes {counted(len(planned.removed), 'object')} of {run}:")
    for name in planned.removed:
        say(f"  {name}")
    for name in planned.kept:
        say(f"  kept: {name}")
    if not typer.confirm("Delete?"):
        raise typer.Abort
