# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial stop`: end the processes of a run; nothing that they wrote is lost."""

from dataclasses import asdict

import typer

from seatrial.cli.options import Context, Json, Kubeconfig, Namespace, Run
from seatrial.reports.terminal import say, say_error, say_findings, say_json, say_text
from seatrial.sdk.runs import find_run

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
    chosen = find_run(run, namespace, kubeconfig=kubeconfig, context=context, tell=say_error)
    done = chosen.stop()
    if as_json:
        say_json(asdict(done) | {"run": chosen.name})
        return
    say_findings(done.findings)
    if done.was_running:
        text = f"Stopped {chosen.name}, attempt {done.attempt}. Volumes and the ledger stay."
    else:
        how = f"; attempt {done.attempt} {done.outcome}" if done.outcome else ""
        text = f"Nothing to stop: no job of {chosen.name} is running{how}."
    say_text(text, rest="  ")
    say("next  seatrial launch RUN.YAML, to go on from the last checkpoint")
