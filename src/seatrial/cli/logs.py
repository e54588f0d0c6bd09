# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial logs`: what the processes of a run print."""

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from seatrial.cli.cluster_options import Context, Kubeconfig, Namespace, Run, meant
from seatrial.cli.output import say, say_json
from seatrial.cli.parameters import Json
from seatrial.runs.local_launch import lines_here
from seatrial.runs.logs import Asked, RankLine, read_logs

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
    chosen = meant(run, namespace, kubeconfig, context)
    asked = Asked(rank, follow, tail, container)
    if chosen.here is not None:
        lines = lines_here(chosen.here, asked)
    else:
        site = chosen.site if follow else chosen.looked_at
        lines = read_logs(site, chosen.name, asked)
    for line in lines:
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
