# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What Ctrl-C leaves behind: long commands say what is kept and how to continue."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from seatrial.errors import ExitCode
from seatrial.reports.terminal import say_error

_received: list[int] = []
"""Grows with every Ctrl-C."""


def count_interrupts() -> list[int]:
    """Return a list that grows with every Ctrl-C. An ignored SIGINT stays ignored."""
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
