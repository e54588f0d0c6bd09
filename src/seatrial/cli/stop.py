# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial stop`: end the processes of a run; nothing that they wrote is lost."""

from dataclasses import asdict

import typer

from seatrial.cli.cluster_options import Context, Kubeconfig, Namespace, Run, meant
from seatrial.cli.output import say, say_json, say_text
from seatrial.cli.parameters import Json
from seatrial.runs.local_launch import stop_here
from seatrial.runs.stop import Stopped, stop

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def command(
    run: Run,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Stop a run: its processes save and end; volumes and the ledger stay.

    Launching it again goes on from the last checkpoint.
    """
    chosen = meant(run, namespace, kubeconfig, context)
    if chosen.here is not None:
        was_running, newest = stop_here(chosen.here), chosen.here.read().newest
        outcome = newest.outcome if newest and not was_running else None
        done = Stopped(newest.number if newest else 0, was_running, outcome)
    else:
        done = stop(chosen.site, chosen.name)
    if as_json:
        say_json(asdict(done) | {"run": chosen.name})
        return
    if done.was_running:
        text = f"Stopped {chosen.name}, attempt {done.attempt}. Volumes and the ledger stay."
    else:
        how = f"; attempt {done.attempt} {done.outcome}" if done.outcome else ""
        text = f"Nothing to stop: no job of {chosen.name} is running{how}."
    say_text(text, rest="  ")
    say("next  seatrial launch RUN.YAML, to go on from the last checkpoint")
