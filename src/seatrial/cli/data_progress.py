# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Show the progress of a preparation: bars on a terminal, otherwise a line every 30 seconds."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from seatrial.reports.terminal import say_error
from seatrial.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seatrial.dataprep.progress import Progress, SourceProgress, Tell

QUIET_SECONDS = 30.0
"""Seconds between two lines without a terminal."""
REDRAW_SECONDS = 0.1
"""Seconds between two updates of the bars."""
_WORDS = {
    "listing": "listing the inputs",
    "choosing": "comparing tokenizers on a sample",
    "preparing": "preparing",
    "assembling": "assembling the parts",
    "verifying": "verifying the result",
}
"""The text that describes each phase."""
_ALL = "all sources"


def format_rate(size: float) -> str:
    """Format a rate in bytes per second: `12.3 MB/s`."""
    for factor, unit in ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size:.0f} B/s"


def format_seconds(seconds: float) -> str:
    """Format a duration: `0.4 s`, `45 s`, `12 min`, `3.5 h`, `2.1 days`."""
    for factor, least, unit in ((86400, 2.0, "days"), (3600, 2.0, "h"), (60, 2.0, "min")):
        if seconds >= least * factor:
            value = seconds / factor
            return f"{value:.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 9.5 else f"{seconds:.1f} s"


def format_core_time(seconds: float) -> str:
    """Format CPU time in core-hours, or in core-seconds if it is short."""
    hours = seconds / 3600
    return f"{hours:.2g} core-hours" if hours >= 0.05 else f"{seconds:.2g} core-seconds"


@contextmanager
def shown_progress(*, quiet: bool) -> Iterator["Tell"]:
    """Yield a function that shows the progress: bars on a terminal, otherwise periodic lines."""
    if quiet:
        yield lambda _: None
    elif sys.stderr.isatty():
        with _bars() as tell:
            yield tell
    else:
        with _lines() as tell:
            yield tell


@contextmanager
def _lines() -> Iterator["Tell"]:
    """Print a line every `QUIET_SECONDS`, even if no task reports progress in the meantime."""
    latest: list[Progress] = []
    ended = threading.Event()

    def show() -> None:
        while not ended.wait(QUIET_SECONDS):
            # The progress may change while it is read; the next line shows it.
            with suppress(RuntimeError):
                for progress in latest:
                    say_error(f"  {progress_line(progress)}")

    thread = threading.Thread(target=show, name="progress", daemon=True)
    thread.start()

    def tell(progress: "Progress") -> None:
        latest[:] = [progress]

    try:
        yield tell
    finally:
        ended.set()
        thread.join()


def progress_line(progress: "Progress") -> str:
    """Describe in one line what is done and what remains."""
    words = []
    sources = list(progress.sources.values())
    if progress.tasks and sources:
        words.append(f"{progress.tasks_done:,} of {progress.tasks:,} tasks")
    if sources:
        words += _amounts(sources, progress.seconds)
    elif progress.share:
        words.append(f"{progress.share:.0%}")
    words += _left(progress.seconds_left)
    if len(sources) > 1:
        words.append(f"({', '.join(f'{source.name} {_share(source):.0%}' for source in sources)})")
    return ": ".join(filter(None, (_WORDS[progress.phase], ", ".join(words).replace(", (", " ("))))


def _share(source: "SourceProgress") -> float:
    return source.read / source.total if source.total else 1.0


def _amounts(sources: "Sequence[SourceProgress]", seconds: float) -> list[str]:
    """Describe the bytes read, the rate and the tokens of sources."""
    read, total = sum(each.read for each in sources), sum(each.total for each in sources)
    rate, tokens = sum(each.rate(seconds) for each in sources), sum(each.tokens for each in sources)
    words = [f"{format_bytes(read)} of {format_bytes(total)}", format_rate(rate)]
    return [*words, f"{format_count(tokens)} tokens"] if tokens else words


def _left(seconds: float | None) -> list[str]:
    return [] if seconds is None else [f"{format_seconds(seconds)} left"]


def kept_lines(progress: "Progress | None", command: str) -> str:
    """Describe what an interrupted preparation keeps, and the command that continues it."""
    kept = "No task was started."
    if progress is not None and progress.tasks:
        kept = f"{progress.tasks_done:,} of {progress.tasks:,} tasks are finished and kept"
        kept += "." if progress.sources else ", and so are the files that are already assembled."
    return f"{kept}\nTo continue: {command}"


@contextmanager
def _bars() -> Iterator["Tell"]:
    """Show one bar per source."""
    # Imported here because it takes 80 ms.
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
        """Update the bars."""
        if progress.phase != self.phase:
            self._begin(progress)
        elif time.monotonic() - self.drawn < REDRAW_SECONDS:
            return
        self.drawn = time.monotonic()
        sources = list(progress.sources.values())
        for source in sources:
            rest = ", ".join(
                [
                    *_amounts([source], progress.seconds),
                    *_left(source.seconds_left(progress.seconds)),
                ]
            )
            self.bars.update(self.numbers[source.name], completed=source.read, rest=rest)
        if _ALL in self.numbers:
            words = [f"{progress.tasks_done:,} of {progress.tasks:,} tasks"]
            rest = ", ".join([*words, *_left(progress.seconds_left)])
            read = sum(source.read for source in sources)
            self.bars.update(self.numbers[_ALL], completed=read, rest=rest)
        elif not sources and progress.share:
            rest = ", ".join(_left(progress.seconds_left))
            self.bars.update(self.numbers[progress.phase], completed=progress.share, rest=rest)
        self.bars.refresh()

    def _begin(self, progress: "Progress") -> None:
        """Create the bars for a new phase."""
        for number in self.numbers.values():
            self.bars.remove_task(number)
        self.phase = progress.phase
        totals: dict[str, float | None] = {s.name: s.total for s in progress.sources.values()}
        if not totals:
            has_share = progress.phase in ("assembling", "verifying")
            totals = {progress.phase: 1.0 if has_share else None}
        if len(totals) > 1:
            totals = {_ALL: sum(s.total for s in progress.sources.values()), **totals}
        self.numbers = {
            name: self.bars.add_task(_WORDS.get(name, name), total=total, rest="")
            for name, total in totals.items()
        }
