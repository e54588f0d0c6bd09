# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial watch`: a live view of a run."""

import os
import sys
from contextlib import suppress
from importlib.util import find_spec
from typing import Annotated

import typer

from seatrial.cli.options import Context, History, Kubeconfig, Namespace, examples
from seatrial.errors import ExitCode
from seatrial.monitoring.event_log import Event, encoded
from seatrial.monitoring.logs.reading import ByteStream
from seatrial.reports.live.lines import say_lines
from seatrial.reports.live.reading import LiveReading
from seatrial.reports.terminal import say, say_error
from seatrial.runs.history.history import RunHistory
from seatrial.runs.history.locate import STDIN
from seatrial.runs.ledger.ledger import AttemptOutcome
from seatrial.sdk.history import HistoryPlace, history

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(epilog=examples("seatrial watch my-run", "seatrial watch run.yaml --once"))
def command(
    run: History,
    once: Annotated[
        bool, typer.Option("--once", help="Print the current state in a few lines, and exit.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every event as a line of JSON.")
    ] = False,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Watch a run live: curves, ranks, goodput, time left.

    Without a terminal, prints a line every 30 seconds until the run finishes. Exit code 1 if the
    newest attempt failed. The live view needs the watch extra.
    """
    on_terminal = _draws() and not once and not as_json
    drawn = on_terminal and find_spec("textual") is not None
    piped = _piped() if drawn and run == STDIN else None
    place = HistoryPlace(namespace, kubeconfig, context, live=not once, stdin=piped, tell=say_error)
    found = history(run, place)
    if as_json:
        _say_events(found, follow=not once)
    elif drawn and (run != STDIN or piped is not None):
        _draw(found)
    else:
        if on_terminal and not drawn:
            say_error(
                "The live view needs the watch extra. In a Seatrial checkout, run: "
                "pip install '.[watch]'. Printing lines instead:"
            )
        say_lines(found, follow=not once)
    if _has_failed(found):
        raise typer.Exit(ExitCode.FINDINGS)


def _has_failed(history: RunHistory) -> bool:
    """True if the newest attempt is known to have failed."""
    attempts = history.attempts
    return bool(attempts) and attempts[-1].outcome is AttemptOutcome.FAILED


def _draws() -> bool:
    """True if the output is a terminal that supports drawing."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _piped() -> ByteStream | None:
    """Return the log on standard input, and make the terminal standard input for the keys.

    Return `None` if there is no terminal, or if standard input is the terminal.
    """
    if sys.stdin is None or sys.stdin.isatty():
        return None
    with suppress(OSError):
        # Textual reads keys from file descriptor 0, even if it is not a terminal.
        terminal = os.open("/dev/tty", os.O_RDWR)
        log = os.fdopen(os.dup(0), "rb")
        os.dup2(terminal, 0)
        os.close(terminal)
        return log
    return None


def _say_events(history: RunHistory, *, follow: bool) -> None:
    """Print every event as a line."""
    for part in history.story(follow=follow):
        if isinstance(part, Event):
            say(encoded(part).decode().rstrip("\n"))
        elif follow:
            sys.stdout.flush()


def _draw(history: RunHistory) -> None:
    """Show the live view until the user closes it."""
    # Imported here because it is an extra and takes a third of a second.
    from seatrial.reports.live.app import WatchApp  # noqa: PLC0415

    shown = WatchApp(LiveReading(history, follow=True))
    shown.run()
    if shown.return_code:
        say_error(f"seatrial: {shown.reading.trouble}")
        raise typer.Exit(ExitCode.FINDINGS)
