# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial logs`: what the processes of a run print."""

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from seatrial.cli.options import Context, Json, Kubeconfig, Namespace, Run
from seatrial.reports.terminal import say, say_error, say_json
from seatrial.runs.history.logs import Asked, RankLine
from seatrial.sdk.runs import find_run

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def command(
    run: Run,
    rank: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only of this rank; all when absent.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the run is over.")
    ] = False,
    tail: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Begin with the last N lines of each pod."),
    ] = None,
    container: Annotated[
        str,
        typer.Option(metavar="NAME", help="An init container instead: preflight or install."),
    ] = "",
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Print what the processes of a run's newest attempt print, all ranks merged by time.

    Each line begins with its rank, or with its node for lines of torchrun itself. Followed, a log
    that breaks off is taken up where it was. With --json, one object a line.
    """
    chosen = find_run(run, namespace, kubeconfig=kubeconfig, context=context, tell=say_error)
    for line in chosen.logs(Asked(rank, follow, tail, container)):
        if as_json:
            say_json(asdict(line), indent=None)
        else:
            say(_shown(line))
        if follow:
            sys.stdout.flush()


def _shown(line: RankLine) -> str:
    """A line with its time and whose it is."""
    owner = f"rank {line.rank}" if line.rank is not None else f"node {line.node}"
    return f"{line.time[11:19]} {owner:<8} {line.text}".lstrip()
