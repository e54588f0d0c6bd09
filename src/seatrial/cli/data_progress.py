# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How a preparation shows itself while it works: bars on a terminal, now and then a line else."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from seatrial.reports.terminal import say_error
from seatrial.units import format_count

if TYPE_CHECKING:
    from seatrial.dataprep.progress import Progress, SourceProgress, Tell

QUIET_SECONDS = 30.0
"""Off a terminal, how often a line says that work goes on."""
REDRAW_SECONDS = 0.1
"""How often bars move."""
_WORDS = {
    "listing": "listing the inputs",
    "choosing": "comparing tokenizers on a sample",
    "preparing": "preparing",
    "assembling": "putting the parts together",
    "verifying": "reading the result again",
}
"""What each phase is called."""


def format_rate(size: float) -> str:
    """Bytes a second, for a person."""
    for factor, unit in ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} B/s"


def format_seconds(seconds: float) -> str:
    """A duration for a person: `0.4 s`, `45 s`, `12 min`, `3.5 h`, `2.1 days`."""
    for factor, least, unit in ((86400, 2.0, "days"), (3600, 2.0, "h"), (60, 2.0, "min")):
        if seconds >= least * factor:
            value = seconds / factor
            return f"{value:.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 9.5 else f"{seconds:.1f} s"


def format_core_time(seconds: float) -> str:
    """CPU time for a person: in core-hours, and what is little in core-seconds."""
    hours = seconds / 3600
    return f"{hours:.2g} core-hours" if hours >= 0.05 else f"{seconds:.2g} core-seconds"


@contextmanager
def shown_progress(*, quiet: bool) -> Iterator["Tell"]:
    """What to tell of the progress; nothing is shown when quiet."""
    if quiet:
        yield lambda _: None
    elif sys.stderr.isatty():
        with _bars() as tell:
            yield tell
    else:
        yield _lines()


def _lines() -> "Tell":
    """A line now and then."""
    said = time.monotonic()

    def tell(progress: "Progress") -> None:
        nonlocal said
        if time.monotonic() - said < QUIET_SECONDS:
            return
        said = time.monotonic()
        parts = [_WORDS[progress.phase]]
        parts += [_line(source, progress.seconds) for source in progress.sources.values()]
        if progress.share:
            parts.append(f"{progress.share:.0%}")
        say_error("  " + "; ".join(parts))

    return tell


def _line(source: "SourceProgress", seconds: float) -> str:
    """A source in a few words."""
    share = source.read / source.total if source.total else 1.0
    return f"{source.name} {share:.0%}, {_rest(source, seconds)}"


def _rest(source: "SourceProgress", seconds: float) -> str:
    """Rate, time left and tokens of a source."""
    left = source.seconds_left(seconds)
    words = [format_rate(source.rate(seconds))]
    if left is not None:
        words.append(f"{format_seconds(left)} left")
    if source.tokens:
        words.append(f"{format_count(source.tokens)} tokens")
    return ", ".join(words)


@contextmanager
def _bars() -> Iterator["Tell"]:
    """A bar for each source."""
    # Loaded by the one command that draws bars; it takes 80 ms.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn  # noqa: PLC0415
    from rich.progress import Progress as Bars  # noqa: PLC0415

    columns = (
        TextColumn("  {task.description}"),
        BarColumn(20),
        TaskProgressColumn(),
        TextColumn("{task.fields[rest]}"),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as bars:
        yield _Drawing(bars).tell


class _Drawing:
    """The bars on the screen."""

    def __init__(self, bars: Any) -> None:
        self.bars, self.phase, self.numbers, self.drawn = bars, "", dict[str, Any](), 0.0

    def tell(self, progress: "Progress") -> None:
        """Draw how far it has come."""
        if progress.phase != self.phase:
            self._begin(progress)
        elif time.monotonic() - self.drawn < REDRAW_SECONDS:
            return
        self.drawn = time.monotonic()
        for source in progress.sources.values():
            rest = _rest(source, progress.seconds)
            self.bars.update(self.numbers[source.name], completed=source.read, rest=rest)
        if not progress.sources and progress.share:
            self.bars.update(self.numbers[progress.phase], completed=progress.share)
        self.bars.refresh()

    def _begin(self, progress: "Progress") -> None:
        """New bars for a new phase."""
        for number in self.numbers.values():
            self.bars.remove_task(number)
        self.phase = progress.phase
        totals: dict[str, float | None] = {s.name: s.total for s in progress.sources.values()}
        if not totals:
            totals = {progress.phase: 1.0 if progress.phase == "assembling" else None}
        self.numbers = {
            name: self.bars.add_task(_WORDS.get(name, name), total=total, rest="")
            for name, total in totals.items()
        }
