# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The content of each panel of `seatrial watch`, as text of a given size."""

import itertools
import math
from dataclasses import dataclass

from rich.text import Text

from seatrial.monitoring.event_log import EventKind
from seatrial.monitoring.goodput import Bucket, Goodput
from seatrial.monitoring.gpus import gpu_words
from seatrial.monitoring.rank_times import RankLag
from seatrial.monitoring.series import Point, Series
from seatrial.monitoring.view import RunView
from seatrial.reports.live.braille import plot
from seatrial.reports.plan_phrases import duration, three
from seatrial.reports.run_phrases import (
    BUCKET_COLOURS,
    LAG_COLOURS,
    clock,
    event_words,
    lag_colour,
    loss_words,
    outlook_words,
    percent,
    rate_words,
    shortened,
    span,
)
from seatrial.reports.terminal import counted, harmless

DIM = "#8b94a1"
STRONG = "bold"
LOSS = "#5aa9e6"
RATE = "#58c48b"
NORM = "#c9a1e8"
TROUBLE = "#ff6b74"
_CELL = "■"
_NUMBERED = 6
"""The columns of a rank that is shown with its number."""


@dataclass(frozen=True, slots=True)
class Heading:
    """Facts about a run that are not in its events."""

    name: str
    place: str
    """Where the run was found."""
    attempt: int
    live: bool
    """True if more events can follow."""
    reading: bool = False
    """True while past events are being read."""


def heading(view: RunView, about: Heading, width: int, now: float) -> Text:
    """Return two lines: name and progress, then the key numbers."""
    snapshot = view.snapshot()
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(harmless(about.name), style=STRONG)
    text.append(f"  attempt {about.attempt}", style=DIM)
    text.append(_steps(snapshot.step, snapshot.total_steps))
    quiet = _quiet(view, about, now)
    state = quiet or _state(about)
    if snapshot.total_steps:
        share = min(1.0, snapshot.step / snapshot.total_steps)
        room = width - text.cell_len - len(state) - 12
        if room >= 8:
            full = round(share * room)
            text.append("  ")
            text.append("━" * full, style=RATE)
            text.append("━" * (room - full), style="#3a424d")
        text.append(f" {percent(share)}", style=STRONG)
    text.append("  " + state, style=TROUBLE if quiet else DIM)
    text.append("\n")
    text.append(_numbers(view, width))
    return text


def _steps(step: int, total: int | None) -> str:
    return f"  step {step:,}" + (f" of {total:,}" if total else "")


def _state(about: Heading) -> str:
    if about.reading:
        return "reading"
    return "running" if about.live else "ended"


def _quiet(view: RunView, about: Heading, now: float) -> str:
    """Format the time since the last event of a live run. Empty if it is short."""
    return quiet_words(view, now) if about.live and not about.reading else ""


def quiet_words(view: RunView, now: float) -> str:
    """Format the time since the last event. Empty if it is short."""
    quiet = now - view.last_time if view.last_time is not None else 0.0
    return f"no events for {span(quiet)}" if quiet > 30 else ""


def _numbers(view: RunView, width: int) -> Text:
    """Return as many key numbers as fit."""
    snapshot, spent, ahead = view.snapshot(), view.goodput(), view.outlook()
    words: list[tuple[str, str]] = [("loss", loss_words(snapshot.loss))]
    if snapshot.tokens_per_second:
        words.append(("tokens/s", rate_words(snapshot.tokens_per_second)))
    if ahead is not None and snapshot.total_steps and snapshot.step < snapshot.total_steps:
        words.append(("done in", outlook_words(ahead)))
    if spent.wall:
        words.append(("goodput", percent(spent.share)))
    if snapshot.mfu is not None:
        words.append(("MFU", percent(snapshot.mfu)))
    if snapshot.step_seconds:
        error = f" ± {three(snapshot.step_spread)}" if snapshot.step_spread else ""
        words.append(("step", f"{three(snapshot.step_seconds)}{error} s"))
    text = Text(no_wrap=True, overflow="ellipsis")
    for label, value in words:
        if text.cell_len + len(label) + len(value) + 4 > width and text.cell_len:
            break
        text.append("   " if text.cell_len else "")
        text.append(f"{label} ", style=DIM)
        text.append(value, style=STRONG)
    return text


def loss_curve(view: RunView, width: int, height: int) -> Text:
    """Draw the loss against steps."""
    return plot(view.curves.loss.points, width, height, lambda v: f"{v:.3g}", LOSS, DIM)


def rate_curve(view: RunView, width: int, height: int) -> Text:
    """Draw tokens per second against steps, or steps per second if tokens are unknown."""
    worth = float(view.metrics.tokens_per_step or 1)
    points = inverted(view.curves.step_seconds, worth)
    return plot(points, width, height, three, RATE, DIM)


def rate_title(view: RunView) -> str:
    """Return the title of the second curve."""
    return "tokens per second" if view.metrics.tokens_per_step else "steps per second"


def norm_curve(view: RunView, width: int, height: int) -> Text:
    """Draw the gradient norm against steps."""
    return plot(view.curves.grad_norm.points, width, height, three, NORM, DIM)


def inverted(series: Series, worth: float) -> list[Point]:
    """Convert a curve of seconds to a rate, so that its maximum becomes the minimum."""
    return [
        Point(p.step, worth / p.mean, worth / p.most, worth / p.least, p.count, p.missing)
        for p in series.points
        if p.count and p.least > 0
    ]


def ranks(view: RunView, width: int, height: int) -> Text:
    """Draw the ranks as cells, coloured by their lag behind the median rank."""
    lag, gpus = view.lag(), _gpus(view)
    if lag is None:
        return gpus or Text("This log has no step times per rank.", style=DIM)
    rows = max(1, height - (2 if gpus else 1))
    return Text("\n").join([_lags(lag, width, rows), *([gpus] if gpus else [])])


def _gpus(view: RunView) -> Text:
    """Describe the GPUs in one line. Empty if the log has no readings of them."""
    if view.gpus is None:
        return Text()
    bad = bool(view.gpus.xids or view.gpus.ecc_errors)
    text = Text("GPUs ", style=DIM, no_wrap=True, overflow="ellipsis")
    text.append(gpu_words(view.gpus), style=TROUBLE if bad else STRONG)
    return text


def _lags(lag: RankLag, width: int, rows: int) -> Text:
    if lag.ranks * _NUMBERED <= width:
        return _few_ranks(lag)
    step = 2 if 2 * lag.ranks <= width * rows else 1
    cells, size = lag.cells(width // step * rows)
    across = min(len(cells), width // step)
    # A power of two per row keeps the ranks of a node together.
    across = 1 << int(math.log2(across)) if len(cells) > across else across
    if -(-len(cells) // across) > rows:
        across = width // step
    text = Text(no_wrap=True)
    for begin in range(0, len(cells), across):
        for colour, same in itertools.groupby(map(lag_colour, cells[begin : begin + across])):
            text.append((_CELL + " " * (step - 1)) * sum(1 for _ in same), style=colour)
        text.append("\n")
    text.append(_slowest(lag))
    text.append("" if size == 1 else f" · {size:,} ranks per cell", style=DIM)
    return text


def _few_ranks(lag: RankLag) -> Text:
    """Draw each rank with its number."""
    text = Text(no_wrap=True)
    for rank in range(lag.ranks):
        text.append("██", style=lag_colour(lag.lags.get(rank, 0.0)))
        text.append(f" {rank:<{_NUMBERED - 3}}", style=DIM)
    text.append("\n")
    text.append(_slowest(lag))
    return text


def _slowest(lag: RankLag) -> Text:
    slowest = lag.slowest
    if slowest is None or slowest[1] < LAG_COLOURS[0][0]:
        return Text(f"all within {percent(LAG_COLOURS[0][0])}", style=lag_colour(0.0))
    words = f"rank {slowest[0]:,} is slowest, {percent(slowest[1])} behind"
    return Text(words, style=lag_colour(slowest[1]))


def ranks_title(view: RunView) -> str:
    """Return the title of the rank panel."""
    lag = view.lag()
    return "ranks" if lag is None else f"{lag.ranks:,} ranks, by lag behind the median"


def goodput(view: RunView, width: int, height: int) -> Text:
    """Draw how wall-clock time was spent, as a bar with a legend."""
    spent = view.goodput()
    if not spent.wall:
        return Text("No time recorded yet.", style=DIM)
    text = Text()
    for bucket, cells in _cells(spent, width):
        text.append(" " * cells, style=f"on {BUCKET_COLOURS[bucket]}")
    text.append("\n")
    ordered = sorted(spent.seconds.items(), key=lambda item: -item[1])
    held = [(bucket, seconds) for bucket, seconds in ordered if seconds]
    text.append(
        _one_by_one(held, spent.wall)
        if len(held) < height
        else _in_lines(held, spent, width, height)
    )
    return text


def _one_by_one(held: list[tuple[Bucket, float]], wall: float) -> Text:
    """List the buckets, one per line."""
    text = Text()
    for bucket, seconds in held:
        text.append("■ ", style=BUCKET_COLOURS[bucket])
        text.append(f"{bucket:<11}{percent(seconds / wall):>7}")
        text.append(f"  {span(seconds)}\n", style=DIM)
    return text


def _in_lines(held: list[tuple[Bucket, float]], spent: Goodput, width: int, height: int) -> Text:
    """List the buckets in running text, as many as fit."""
    text, line, used = Text(), Text(), 2
    for bucket, seconds in held:
        word = f"{bucket} {percent(seconds / spent.wall)}"
        if line.cell_len and line.cell_len + len(word) + 4 > width:
            used += 1
            if used > height:
                break
            text.append(line)
            text.append("\n")
            line = Text()
        line.append("  " if line.cell_len else "")
        line.append("■ ", style=BUCKET_COLOURS[bucket])
        line.append(word)
    text.append(line)
    return text


def goodput_title(view: RunView) -> str:
    """Return the title of the goodput panel."""
    spent = view.goodput()
    if not spent.wall:
        return "goodput"
    again = f", {counted(spent.restarts, 'restart')}" if spent.restarts else ""
    return f"goodput {percent(spent.share)} of {span(spent.wall)}{again}"


def _cells(spent: Goodput, width: int) -> list[tuple[Bucket, int]]:
    """Return the columns of each bucket. They add up to the width."""
    shares = {b: s / spent.wall * width for b, s in spent.seconds.items() if s > 0}
    cells = {bucket: int(share) for bucket, share in shares.items()}
    left = width - sum(cells.values())
    for bucket in sorted(shares, key=lambda b: cells[b] - shares[b])[:left]:
        cells[bucket] += 1
    return [(bucket, number) for bucket, number in cells.items() if number]


def events(view: RunView, width: int, height: int) -> Text:
    """List the latest events, newest last."""
    text = Text(no_wrap=True, overflow="ellipsis")
    shown = list(view.events)[-max(1, height) :]
    for place, event in enumerate(shown):
        bad = event.kind is EventKind.FINDING or bool(event.values.get("error"))
        text.append("\n" if place else "")
        text.append(f"{clock(event.time)} ", style=DIM)
        words = shortened(harmless(event_words(event)), max(10, width - 9))
        text.append(words, style=TROUBLE if bad else "")
    return text if shown else Text("No events yet.", style=DIM)


def events_title(view: RunView) -> str:
    """Return the title of the event panel."""
    total = sum(view.found.values())
    return "last events" if not total else f"last events · {counted(total, 'finding')}"


def status_line(view: RunView) -> str:
    """Summarise the run in one line."""
    snapshot, spent, ahead = view.snapshot(), view.goodput(), view.outlook()
    parts = [
        f"step {snapshot.step:,}"
        + (f" of {snapshot.total_steps:,}" if snapshot.total_steps else "")
    ]
    if snapshot.loss is not None:
        parts.append(f"loss {loss_words(snapshot.loss)}")
    if snapshot.step_seconds:
        parts.append(f"{duration(snapshot.step_seconds)} per step")
    if snapshot.tokens_per_second:
        parts.append(f"{rate_words(snapshot.tokens_per_second)} tokens/s")
    if spent.wall:
        parts.append(f"goodput {percent(spent.share)}")
    if ahead is not None and snapshot.total_steps and snapshot.step < snapshot.total_steps:
        parts.append(f"done in {outlook_words(ahead)}")
    if view.gpus is not None and gpu_words(view.gpus):
        parts.append(f"GPUs {gpu_words(view.gpus)}")
    return " · ".join(parts)
