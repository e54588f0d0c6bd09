# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial wait`: come back when a run is over; the exit code says how it ended."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from seatrial.cli.options import Context, Json, Kubeconfig, Namespace, Run
from seatrial.cli.status import say_status
from seatrial.errors import ExitCode
from seatrial.reports.terminal import say_error, say_json
from seatrial.runs.status.status import Status
from seatrial.sdk.runs import find_run

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def command(
    run: Run,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="How long to wait; for ever when absent."),
    ] = None,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Wait until a run is over, whatever happens to the API server meanwhile.

    Exit code 0 when it has succeeded, 5 when it has failed or was stopped, 6 when time was up, 4
    when time was up before the API server has answered once.
    """
    chosen = find_run(run, namespace, kubeconfig=kubeconfig, context=context, tell=say_error)
    last = ""

    def saw(found: Status) -> None:
        nonlocal last
        text = f"{found.state}, {found.running} of {found.wanted} run"
        if text != last and not found.is_over and not as_json:
            say_error(f"{datetime.now(UTC):%H:%M:%S}  {found.run}: {text}")
        last = text

    # Known before it waits: once interrupted, a command must not begin to ask a cluster.
    flags = chosen.flags
    try:
        found = chosen.wait(timeout, saw)
    except KeyboardInterrupt:
        stop = f"seatrial stop {chosen.name}{flags}"
        say_error(f"\nNo longer waiting; {chosen.name} goes on. To end it: {stop}")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    if as_json:
        say_json(found.to_dict())
    else:
        say_status(found, datetime.now(UTC), flags)
    if not found.is_over:
        raise typer.Exit(ExitCode.STILL_RUNNING)
    if not found.succeeded:
        raise typer.Exit(ExitCode.RUN_FAILED)
