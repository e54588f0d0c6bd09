# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial wait`: wait for a run to finish."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from seatrial.cli.options import Context, Json, Kubeconfig, Namespace, Run, examples
from seatrial.cli.status import say_status
from seatrial.errors import ExitCode
from seatrial.reports.terminal import say_error, say_json
from seatrial.runs.status.status import Status
from seatrial.sdk.runs import find_run

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(epilog=examples("seatrial wait my-run", "seatrial wait my-run --timeout 3600"))
def command(
    run: Run,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0, help="The longest time to wait. Default: no limit."),
    ] = None,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Wait for a run to finish, even if the API server is temporarily unreachable.

    Exit code 0 if it succeeded, 5 if it failed or was stopped, 6 after the timeout, 4 if the API
    server did not respond at all before the timeout.
    """
    chosen = find_run(run, namespace, kubeconfig=kubeconfig, context=context, tell=say_error)
    last = ""

    def saw(found: Status) -> None:
        nonlocal last
        text = f"{found.state}, {found.running} of {found.wanted} running"
        if text != last and not found.is_over and not as_json:
            say_error(f"{datetime.now(UTC):%H:%M:%S}  {found.run}: {text}")
        last = text

    # Looked up before waiting: an interrupted command must not contact a cluster.
    flags = chosen.flags
    try:
        found = chosen.wait(timeout, saw)
    except KeyboardInterrupt:
        stop = f"seatrial stop {chosen.name}{flags}"
        say_error(f"\nStopped waiting. {chosen.name} keeps running; to stop it: {stop}")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    if as_json:
        say_json(found.to_dict())
    else:
        say_status(found, datetime.now(UTC), flags)
    if not found.is_over:
        raise typer.Exit(ExitCode.STILL_RUNNING)
    if not found.succeeded:
        raise typer.Exit(ExitCode.RUN_FAILED)
