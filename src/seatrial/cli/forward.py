# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial forward`: TensorBoard of a run on a port of this host."""

import sys
from typing import Annotated

import typer

from seatrial.cli.options import Context, Kubeconfig, Namespace, Run
from seatrial.rendering.tensorboard import PORT
from seatrial.reports.terminal import say, say_error
from seatrial.sdk.runs import find_run

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def command(
    run: Run,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="The port on this host; 0 takes a free one.")
    ] = PORT,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Forward TensorBoard of a run to a port of this host, until Ctrl-C.

    Only this host reaches it: TensorBoard asks nobody for a password.
    """
    chosen = find_run(run, namespace, kubeconfig=kubeconfig, context=context, tell=say_error)
    forward = chosen.forward_tensorboard(port)
    forward.probe()
    say(f"TensorBoard of {chosen.name}: http://127.0.0.1:{forward.local_port}   (Ctrl-C ends it)")
    # Whoever reads it through a pipe must not wait for the end.
    sys.stdout.flush()
    forward.serve()
