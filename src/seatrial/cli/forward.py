# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial forward`: forward a run's TensorBoard to a local port."""

import sys
from typing import Annotated

import typer

from seatrial.cli.options import Context, Kubeconfig, Namespace, Run, examples
from seatrial.rendering.tensorboard import PORT
from seatrial.reports.terminal import say, say_error
from seatrial.sdk.runs import find_run

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(epilog=examples("seatrial forward my-run", "seatrial forward my-run --port 0"))
def command(
    run: Run,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="The local port; 0 picks a free one.")
    ] = PORT,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Forward a run's TensorBoard to a local port, until Ctrl-C.

    Listens on loopback only, because TensorBoard has no password.
    """
    chosen = find_run(run, namespace, kubeconfig=kubeconfig, context=context, tell=say_error)
    forward = chosen.forward_tensorboard(port)
    say(f"TensorBoard of {chosen.name}: http://127.0.0.1:{forward.local_port}   (Ctrl-C to stop)")
    # A reader of a pipe must see the address now.
    sys.stdout.flush()
    forward.serve()
