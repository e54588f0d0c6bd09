# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What Ctrl-C leaves behind: long commands say what is kept and how to continue."""

import _thread
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from seatrial.errors import ExitCode
from seatrial.reports.terminal import say_error

_received: list[int] = []
"""Grows with every Ctrl-C."""
_reported: list[bool] = []
"""Not empty once the command has printed that it stops."""


def count_interrupts() -> list[int]:
    """Return a list that grows with every Ctrl-C. An ignored SIGINT stays ignored."""
    _reported.clear()
    handler = signal.getsignal(signal.SIGINT)
    if callable(handler):
        before = handler

        def interrupted(number: int, frame: FrameType | None) -> None:
            _received.append(number)
            before(number, frame)

        signal.signal(signal.SIGINT, interrupted)
    return _received


def raise_lost_interrupt() -> None:
    """Raise a Ctrl-C again that a library has swallowed.

    Call this where a command makes progress: whoever gets there after a Ctrl-C has not heard of it.
    """
    if _received:
        raise KeyboardInterrupt


def say_stopped(kept: str = "") -> None:
    """Say that the command stops. From here on, a Ctrl-C that was lost is not raised again."""
    _reported.append(True)
    say_error(f"\nStopped. {kept}".rstrip())


def raise_unless_reported() -> None:
    """Interrupt the main thread, unless the command has already printed that it stops.

    An interrupt during the exit would replace the exit code.
    """
    if not _reported:
        _thread.interrupt_main()


@contextmanager
def on_interrupt(kept: str | Callable[[], str]) -> Iterator[None]:
    """Print what an interrupted command keeps and how to continue, and exit with 130.

    A function is called after the interrupt, when it is known how far the command got.
    """
    try:
        yield
    except KeyboardInterrupt:
        say_stopped(kept() if callable(kept) else kept)
        raise typer.Exit(ExitCode.INTERRUPTED) from None
