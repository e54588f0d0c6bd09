# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial logs`: the output of a run's processes."""

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from seatrial.cli.options import Context, Json, Kubeconfig, Namespace, Run, examples
from seatrial.reports.terminal import say, say_error, say_json
from seatrial.runs.history.logs import Asked, RankLine
from seatrial.sdk.runs import find_run

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(
    epilog=examples("seatrial logs my-run --follow", "seatrial logs my-run --rank 11 --tail 100")
)
def command(
    run: Run,
    rank: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only this rank. Default: all.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing until the run finishes.")
    ] = False,
    tail: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Start with the last N lines of each pod."),
    ] = None,
    container: Annotated[
        str,
        typer.Option(metavar="NAME", help="An init container: preflight or install."),
    ] = "",
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Print the output of a run's newest attempt, all ranks merged by time.

    Each line starts with its rank, or with its node for torchrun's own lines. With --follow,
    an interrupted log stream resumes where it stopped. With --json, prints one object per line.
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
    """Format a line with its time and its rank or node."""
    owner = f"rank {line.rank}" if line.rank is not None else f"node {line.node}"
    return f"{line.time[11:19]} {owner:<8} {line.text}".lstrip()
