# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial status`: how a run is, and why."""

from datetime import UTC, datetime

import typer

from seatrial.cli.options import Context, Json, Kubeconfig, Namespace, Run
from seatrial.findings import Finding
from seatrial.reports.terminal import hides_next, say, say_error, say_json, say_text
from seatrial.runs.ledger.ledger import AttemptRecord
from seatrial.runs.status.status import Status, age
from seatrial.sdk.runs import find_run

app = typer.Typer(rich_markup_mode=None, add_completion=False)

SHOWN_ATTEMPTS = 5
"""Earlier attempts that are shown."""


@app.command()
def command(
    run: Run,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Show how a run is; when it does not run, first why, and what to do.

    Needs the cluster extra for a run on a cluster.
    """
    chosen = find_run(run, namespace, kubeconfig=kubeconfig, context=context, tell=say_error)
    found = chosen.status()
    if as_json:
        say_json(found.to_dict())
        return
    say_status(found, datetime.now(UTC), chosen.flags)


def say_status(found: Status, now: datetime, flags: str = "") -> None:
    """Print a status: the answer, the reasons, the attempts before.

    The flags are what the next command needs to find the run.
    """
    lasting = f" for {age(found.since, now)}" if found.since else ""
    head = f"{found.run}   attempt {found.attempt} · {found.state}{lasting}"
    submitted = f"submitted {_clock(found.submitted, now)}, " if found.submitted else ""
    say_text(f"{head}   {submitted}{found.place}", rest="  ")
    if found.wanted and not found.is_over:
        again = f", {found.restarts} restarts of containers" if found.restarts else ""
        what = "pods" if found.wanted > 1 else "pod"
        if "this host" not in found.place:
            say(f"  {found.running} of {found.wanted} {what} run{again}")
    for reason in found.reasons:
        say_text(f"{reason.where}: {reason.rule} ({reason.code})", "  ", "    ")
        if _to_do(reason):
            say_text(reason.fix, "  Do: ", "    ")
    if found.message and not found.reasons:
        say_text(f"the operator says: {found.message}", "  ", "    ")
    earlier = [a for a in found.attempts if a.number != found.attempt or found.is_over]
    for record in reversed(earlier[-SHOWN_ATTEMPTS:]):
        say_text(_attempt(record, now), "  ", "    ")
    if not (found.succeeded and hides_next()):
        say(f"next  {_next(found, flags)}")


def _attempt(record: AttemptRecord, now: datetime) -> str:
    """One earlier attempt in a line."""
    if record.outcome is None and not record.submitted:
        return f"attempt {record.number}: its record is damaged."
    if record.outcome is None:
        return f"attempt {record.number} was submitted {_clock(record.submitted, now)}."
    text = f"attempt {record.number} {record.outcome} {_clock(record.ended, now)}"
    text += f": {record.reason.rstrip('.')}" if record.reason else ""
    if record.faulty_nodes:
        text += f"; faulty: {', '.join(record.faulty_nodes)}"
    return f"{text}."


def _to_do(reason: Finding) -> bool:
    """Whether somebody has to do something about it."""
    return bool(reason.fix) and reason.fix != "Wait."


def _next(found: Status, flags: str) -> str:
    if found.succeeded:
        return f"seatrial delete {found.run}{flags}, when nothing of it is needed; its volume stays"
    if found.is_over:
        return "seatrial launch RUN.YAML, for another attempt"
    if not found.running and any(map(_to_do, found.reasons)):
        # Pods that have not begun have said nothing.
        return f"seatrial status {found.run}{flags}, when that is done"
    return f"seatrial logs {found.run}{flags} --follow"


def _clock(when: str, now: datetime) -> str:
    """A time of today as the clock shows it, another with its date; in UTC."""
    try:
        moment = datetime.fromisoformat(when)
    except ValueError:
        return "?"
    return f"{moment:%H:%M}" if moment.date() == now.date() else f"{moment:%Y-%m-%d %H:%M}"
