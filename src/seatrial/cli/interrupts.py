# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What Ctrl-C leaves behind: long commands say what is kept and how to continue."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from seatrial.errors import ExitCode
from seatrial.reports.terminal import say_error


@contextmanager
def on_interrupt(kept: str | Callable[[], str]) -> Iterator[None]:
    """Print what an interrupted command keeps and how to continue, and exit with 130.

    A function is called after the interrupt, when it is known how far the command got.
    """
    try:
        yield
    except KeyboardInterrupt:
        say_error(f"\nStopped. {kept() if callable(kept) else kept}")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
