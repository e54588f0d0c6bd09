# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial list`: the runs of a namespace."""

from dataclasses import asdict
from datetime import UTC, datetime

import typer

from seatrial.cli.cluster_options import Context, Kubeconfig, Namespace, connect_to_look
from seatrial.cli.output import say, say_json
from seatrial.cli.parameters import Json
from seatrial.cli.tables import name, number, say_table, text
from seatrial.runs.listing import Line, list_runs
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
    """List the runs of a namespace, the newest first; those that have ended too.

    Needs the cluster extra.
    """
    site = connect_to_look(namespace, kubeconfig, context)
    lines = list_runs(site)
    if as_json:
        say_json([asdict(line) for line in lines])
        return
    if not lines:
        say(f"No runs in {site.namespace}.\nnext  seatrial launch RUN.YAML")
        return
    now = datetime.now(UTC)
    say_table(COLUMNS, [_row(line, now) for line in lines])
    say(f"\nnext  seatrial status {lines[0].run}")


def _row(line: Line, now: datetime) -> tuple[str, ...]:
    ago = f"{age(line.submitted, now)} ago"
    return line.run, line.state, str(line.attempt), line.pods, line.kind, ago
