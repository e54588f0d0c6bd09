# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial list`: the runs in a namespace and in this directory."""

from dataclasses import asdict
from datetime import UTC, datetime

import typer

from seatrial.cli.options import Context, Json, Kubeconfig, Namespace, examples
from seatrial.reports.tables import name, number, say_table, text
from seatrial.reports.terminal import say, say_error, say_findings, say_json
from seatrial.runs.status.listing import RunLine
from seatrial.runs.status.status import age
from seatrial.sdk.runs import list_runs

app = typer.Typer(rich_markup_mode=None, add_completion=False)

COLUMNS = (
    name("run"),
    text("state"),
    number("attempt", rank=2),
    text("pods"),
    name("job", rank=1),
    text("submitted"),
)


@app.command(epilog=examples("seatrial list", "seatrial list -n research --json"))
def command(
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """List runs, including finished ones, newest first.

    Lists the runs in a namespace (needs the cluster extra) and, unless you name a cluster, the
    runs that were launched on this host from this directory.
    """
    found = list_runs(namespace, kubeconfig=kubeconfig, context=context, tell=say_error)
    lines = found.lines
    if as_json:
        if found.trouble is not None:
            raise found.trouble
        say_json([asdict(line) for line in lines])
        return
    if not found.namespace:
        say_error("No cluster is configured: listing the runs on this host only.")
    if not lines:
        say(f"No runs in {found.namespace}.\nnext  seatrial launch RUN.YAML")
        return
    say_findings([finding for line in lines for finding in line.findings])
    now = datetime.now(UTC)
    say_table(COLUMNS, [_row(line, now) for line in lines])
    if found.trouble is not None:
        raise found.trouble
    say(f"\nnext  seatrial status {lines[0].run}")


def _row(line: RunLine, now: datetime) -> tuple[str, ...]:
    ago = f"{age(line.submitted, now)} ago"
    return line.run, line.state, str(line.attempt), line.pods, line.kind, ago
