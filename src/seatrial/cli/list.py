# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial list`: the runs of a namespace, and those of this directory on this host."""

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import typer

from seatrial.cli.cluster_options import Context, Kubeconfig, Namespace, connect_to_look
from seatrial.cli.output import say, say_error, say_json
from seatrial.cli.parameters import Json
from seatrial.cli.tables import name, number, say_table, text
from seatrial.cluster.codes import ClusterCode
from seatrial.cluster.errors import ClusterError
from seatrial.errors import MissingExtraError, SeatrialError
from seatrial.runs.listing import Line, list_here, list_runs, newest_first
from seatrial.runs.status import age

app = typer.Typer(rich_markup_mode=None, add_completion=False)

COLUMNS = (
    name("run"),
    text("state"),
    number("attempt", rank=2),
    text("pods"),
    name("job", rank=1),
    text("submitted"),
)


@app.command()
def command(
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """List runs, the newest first; those that have ended too.

    Those of a namespace, which needs the cluster extra, and unless a cluster is named those that
    were launched on this host from this directory.
    """
    is_named = bool(namespace or kubeconfig or context)
    here = [] if is_named else list_here(Path())
    trouble = None
    try:
        site = connect_to_look(namespace, kubeconfig, context)
        lines = newest_first([*here, *list_runs(site)])
    except SeatrialError as error:
        trouble = None if _has_no_cluster(error) else error
        if not here or (as_json and trouble is not None):
            raise
        lines = newest_first(here)
        if not as_json:
            say_error("Of this host alone: no cluster can be asked from here.")
    if as_json:
        say_json([asdict(line) for line in lines])
        return
    if not lines:
        say(f"No runs in {site.namespace}.\nnext  seatrial launch RUN.YAML")
        return
    now = datetime.now(UTC)
    say_table(COLUMNS, [_row(line, now) for line in lines])
    if trouble is not None:
        raise trouble
    say(f"\nnext  seatrial status {lines[0].run}")


def _has_no_cluster(error: SeatrialError) -> bool:
    """Whether there is no way to a cluster at all; one that does not answer is trouble."""
    is_unknown = isinstance(error, ClusterError) and error.code is ClusterCode.CONFIG
    return is_unknown or isinstance(error, MissingExtraError)


def _row(line: Line, now: datetime) -> tuple[str, ...]:
    ago = f"{age(line.submitted, now)} ago"
    return line.run, line.state, str(line.attempt), line.pods, line.kind, ago
