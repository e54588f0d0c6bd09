# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial stop`: stop a run and keep its checkpoints."""

from dataclasses import asdict

import typer

from seatrial.cli.options import Context, Json, Kubeconfig, Namespace, Run, examples
from seatrial.reports.terminal import say, say_error, say_findings, say_json, say_text
from seatrial.sdk.runs import find_run

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(epilog=examples("seatrial stop my-run", "seatrial stop run.yaml --json"))
def command(
    run: Run,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Stop a run. Its processes save a checkpoint and exit; volumes and the ledger are kept.

    To continue from the last checkpoint, launch the run again.
    """
    chosen = find_run(run, namespace, kubeconfig=kubeconfig, context=context, tell=say_error)
    done = chosen.stop()
    if as_json:
        say_json(asdict(done) | {"run": chosen.name})
        return
    say_findings(done.findings)
    if done.was_running:
        text = f"Stopped {chosen.name}, attempt {done.attempt}. Volumes and the ledger are kept."
    else:
        how = f"; attempt {done.attempt} {done.outcome}" if done.outcome else ""
        text = f"{chosen.name} is not running{how}."
    say_text(text, rest="  ")
    say("next  seatrial launch RUN.YAML   continues from the last checkpoint")
