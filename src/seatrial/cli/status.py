# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial status`: the state of a run and the reasons for it."""

from collections.abc import Sequence
from datetime import UTC, datetime

import typer

from seatrial.cli.options import Context, Json, Kubeconfig, Namespace, Run, examples
from seatrial.codes.runs import RunCode
from seatrial.findings import Finding
from seatrial.monitoring.node_measurements import COLUMNS, NodeMeasurement, table_rows
from seatrial.reports.tables import Column, name, number, say_table
from seatrial.reports.terminal import hides_next, say, say_error, say_json, say_text
from seatrial.runs.ledger.ledger import AttemptOutcome, AttemptRecord
from seatrial.runs.status.status import Status, age
from seatrial.sdk.runs import find_run

app = typer.Typer(rich_markup_mode=None, add_completion=False)

SHOWN_ATTEMPTS = 5
"""The number of earlier attempts to show."""


@app.command(epilog=examples("seatrial status run.yaml", "seatrial status my-run -n research"))
def command(
    run: Run,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Show the state of a run. If it is not running, show why and how to fix it.

    Needs the cluster extra for a run on a cluster.
    """
    chosen = find_run(run, namespace, kubeconfig=kubeconfig, context=context, tell=say_error)
    found = chosen.status()
    if as_json:
        say_json(found.to_dict())
        return
    say_status(found, datetime.now(UTC), chosen.flags)


def say_status(found: Status, now: datetime, flags: str = "") -> None:
    """Print a status: the state, its reasons, and earlier attempts.

    `flags` are the options that the next command needs to find the run.
    """
    lasting = f" for {age(found.since, now)}" if found.since else ""
    head = f"{found.run}   attempt {found.attempt} · {found.state}{lasting}"
    submitted = f"submitted {_clock(found.submitted, now)}, " if found.submitted else ""
    say_text(f"{head}   {submitted}{found.place}", rest="  ")
    if found.wanted and not found.is_over:
        again = f", {found.restarts} container restarts" if found.restarts else ""
        what = "pods" if found.wanted > 1 else "pod"
        if not found.is_here:
            say(f"  {found.running} of {found.wanted} {what} running{again}")
    for reason in found.reasons:
        say_text(f"{reason.where}: {reason.rule} ({reason.code})", "  ", "    ")
        if _to_do(reason):
            say_text(reason.fix, "  Do: ", "    ")
    if found.message and not found.reasons:
        say_text(f"operator: {found.message}", "  ", "    ")
    if found.nodes:
        _say_nodes(found.nodes)
    earlier = [a for a in found.attempts if a.number != found.attempt or found.is_over]
    for record in reversed(earlier[-SHOWN_ATTEMPTS:]):
        say_text(_attempt(record, now), "  ", "    ")
    if not (found.succeeded and hides_next()):
        say(f"next  {_next(found, flags)}")


def _say_nodes(nodes: Sequence[NodeMeasurement]) -> None:
    """Print the preflight measurements of the nodes, without empty columns."""
    rows = table_rows(nodes)
    shown = [i for i in range(len(COLUMNS)) if any(row[i] for row in rows)]
    more = f", the {len(rows)} slowest" if len(rows) < len(nodes) else ""
    what = "nodes" if len(nodes) > 1 else "node"
    say(f"  preflight measurements of {len(nodes)} {what}{more}:")
    columns = [_column(*COLUMNS[i], rank=i) for i in shown]
    say_table(columns, [tuple(row[i] for i in shown) for row in rows])


def _column(title: str, unit: str, rank: int) -> Column:
    if not title:
        return name(title)
    if title in ("driver", "NCCL"):
        return name(title, rank=rank)
    return number(f"{title} {unit}".rstrip(), rank=rank) if rank else name(title)


def _attempt(record: AttemptRecord, now: datetime) -> str:
    """Describe an earlier attempt in one line."""
    if record.outcome is None and not record.submitted:
        return f"attempt {record.number}: the record is damaged."
    if record.outcome is None:
        return f"attempt {record.number} was submitted {_clock(record.submitted, now)}."
    text = f"attempt {record.number} {record.outcome} {_clock(record.ended, now)}"
    text += f": {record.reason.rstrip('.')}" if record.reason else ""
    if record.faulty_nodes:
        text += f"; faulty: {', '.join(record.faulty_nodes)}"
    return f"{text}."


def _to_do(reason: Finding) -> bool:
    """True if the user has to act."""
    return bool(reason.fix) and reason.code != RunCode.STARTING


def _next(found: Status, flags: str) -> str:
    if found.succeeded:
        return f"seatrial report {found.run}{flags}"
    if found.state == AttemptOutcome.FAILED:
        return f"seatrial diagnose {found.run}{flags}   then seatrial launch RUN.YAML"
    if found.is_over:
        return "seatrial launch RUN.YAML   starts a new attempt"
    if not found.running and any(map(_to_do, found.reasons)):
        # Pods that have not started have no logs.
        return f"seatrial status {found.run}{flags}   after the fix"
    return f"seatrial logs {found.run}{flags} --follow"


def _clock(when: str, now: datetime) -> str:
    """Format a time in UTC, with its date unless it is today."""
    try:
        moment = datetime.fromisoformat(when)
    except ValueError:
        return "?"
    return f"{moment:%H:%M}" if moment.date() == now.date() else f"{moment:%Y-%m-%d %H:%M}"
