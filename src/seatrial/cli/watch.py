# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial watch`: a run while it goes on."""

import os
import sys
from contextlib import suppress
from importlib.util import find_spec
from typing import Annotated

import typer

from seatrial.cli.options import Context, History, Kubeconfig, Namespace
from seatrial.errors import ExitCode
from seatrial.monitoring.event_log import Event, encoded
from seatrial.monitoring.logs.reading import ByteStream
from seatrial.reports.live.lines import say_lines
from seatrial.reports.live.reading import LiveReading
from seatrial.reports.terminal import say, say_error
from seatrial.runs.history.history import RunHistory
from seatrial.runs.history.locate import STDIN
from seatrial.sdk.history import HistoryPlace, history

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def command(
    run: History,
    once: Annotated[
        bool, typer.Option("--once", help="Say how it is now in a few lines, and end.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every event as a line of JSON instead.")
    ] = False,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Show a run while it goes on: curves, ranks, where the time goes, when it will be done.

    Off a terminal it says the same in lines, one every half minute, until the run is over. Needs
    the watch extra for the view; lines need nothing.
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
                "The view needs textual: pip install '.[watch]' in a checkout of Seatrial. "
                "In lines meanwhile:"
            )
        say_lines(found, follow=not once)


def _draws() -> bool:
    """Whether the output is a terminal that can be drawn on."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def _piped() -> ByteStream | None:
    """The log that comes through standard input, which from now on is the terminal with its keys.

    Nothing where there is no such terminal, or where the log is typed into it.
    """
    if sys.stdin is None or sys.stdin.isatty():
        return None
    with suppress(OSError):
        # Textual reads keys from file 0, whatever that is.
        terminal = os.open("/dev/tty", os.O_RDWR)
        log = os.fdopen(os.dup(0), "rb")
        os.dup2(terminal, 0)
        os.close(terminal)
        return log
    return None


def _say_events(history: RunHistory, *, follow: bool) -> None:
    """Every event as its line."""
    for told in history.story(follow=follow):
        if isinstance(told, Event):
            say(encoded(told).decode().rstrip("\n"))
        elif follow:
            sys.stdout.flush()


def _draw(history: RunHistory) -> None:
    """Show the view until somebody leaves it."""
    # Loaded here because it is an extra, and takes a third of a second.
    from seatrial.reports.live.app import WatchApp  # noqa: PLC0415

    shown = WatchApp(LiveReading(history, follow=True))
    shown.run()
    if shown.return_code:
        say_error(f"seatrial: {shown.reading.trouble}")
        raise typer.Exit(ExitCode.FINDINGS)
