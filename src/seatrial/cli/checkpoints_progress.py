# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How reading a checkpoint shows itself: a bar on a terminal, now and then a line else."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from seatrial.cli.data_progress import QUIET_SECONDS, REDRAW_SECONDS, format_rate, format_seconds
from seatrial.cli.output import say_error

Tell = Callable[[int, int], None]
"""Told how many files and bytes are done."""


@contextmanager
def shown(what: str, total: int, *, quiet: bool) -> Iterator[Tell]:
    """What to tell of the progress of so many bytes; nothing is shown when quiet."""
    if quiet:
        yield lambda files, size: None
    elif sys.stderr.isatty():
        with _bar(what, total) as tell:
            yield tell
    else:
        yield _lines(what, total)


def _rest(files: int, size: int, total: int, seconds: float) -> str:
    """Files, rate and time left."""
    rate = size / max(seconds, 1e-6)
    words = [f"{files:,} files"] if files else []
    words.append(format_rate(rate))
    if rate > 0 and size < total:
        words.append(f"{format_seconds((total - size) / rate)} left")
    return ", ".join(words)


def _lines(what: str, total: int) -> Tell:
    began = said = time.monotonic()

    def tell(files: int, size: int) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said >= QUIET_SECONDS:
            said = now
            share = size / total if total else 1.0
            say_error(f"  {what} {share:.0%}, {_rest(files, size, total, now - began)}")

    return tell


@contextmanager
def _bar(what: str, total: int) -> Iterator[Tell]:
    # Loaded by the commands that draw bars; it takes 80 ms.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn  # noqa: PLC0415

    columns = (
        TextColumn("  {task.description}"),
        BarColumn(20),
        TaskProgressColumn(),
        TextColumn("{task.fields[rest]}"),
    )
    with Progress(
        *columns, console=Console(stderr=True), transient=True, auto_refresh=False
    ) as bars:
        task = bars.add_task(what, total=total, rest="")
        began = drawn = time.monotonic()

        def tell(files: int, size: int) -> None:
            nonlocal drawn
            now = time.monotonic()
            if now - drawn >= REDRAW_SECONDS:
                drawn = now
                rest = _rest(files, size, total, now - began)
                bars.update(task, completed=size, rest=rest)
                bars.refresh()

        yield tell
