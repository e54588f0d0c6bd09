# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial delete`: delete a run; its volume is kept by default."""

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from seatrial.cli.options import Context, Json, Kubeconfig, Namespace, Run, Yes, examples
from seatrial.errors import UsageError
from seatrial.reports.terminal import counted, say, say_error, say_json, say_text
from seatrial.runs.stop import Removal
from seatrial.sdk.runs import find_run

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(epilog=examples("seatrial delete my-run", "seatrial delete my-run --volumes --yes"))
def command(
    run: Run,
    volumes: Annotated[
        bool,
        typer.Option("--volumes", help="Also delete the run's PVC, including all checkpoints."),
    ] = False,
    yes: Yes = False,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Delete a run: its job, all objects created for it, and its ledger. Its volume is kept.

    Asks for confirmation. With --volumes, a volume whose storage class has the reclaim policy
    Retain is still kept.
    """
    chosen = find_run(run, namespace, kubeconfig=kubeconfig, context=context, tell=say_error)
    planned = chosen.removal(volumes=volumes)
    if not yes:
        _ask(chosen.name, planned, as_json=as_json)
    done = chosen.delete(volumes=volumes)
    if as_json:
        say_json(asdict(done) | {"run": chosen.name})
        return
    say_text(f"Deleted {chosen.name}: {counted(len(done.removed), 'object')}.", rest="  ")
    for kept in done.kept:
        say(f"  kept: {kept}")
    if done.unseen:
        say_text(
            f"not checked, because of missing permissions: {', '.join(done.unseen)}", "  ", "    "
        )
    if chosen.here is None:
        say("next  seatrial list")


def _ask(run: str, planned: Removal, *, as_json: bool) -> None:
    """Show what would be deleted, and ask for confirmation."""
    if as_json or not sys.stdin.isatty():
        raise UsageError(f"deleting {run} needs confirmation. Add --yes.")
    say(f"This deletes {counted(len(planned.removed), 'object')} of {run}:")
    for name in planned.removed:
        say(f"  {name}")
    for name in planned.kept:
        say(f"  kept: {name}")
    if not typer.confirm("Delete?"):
        raise typer.Abort
