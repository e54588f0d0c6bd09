# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What `seatrial watch` shows in each panel, as text of a given size; nothing is drawn here."""

import itertools
import math
from dataclasses import dataclass

from rich.text import Text

from seatrial.monitoring.event_log import EventKind
from seatrial.monitoring.goodput import Bucket, Goodput
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
"""Columns of a rank that has its number beside it."""


@dataclass(frozen=True, slots=True)
class Heading:
    """What is known of a run beside its events."""

    name: str
    """The run's name."""
    place: str
    """Where it was found."""
    attempt: int
    live: bool
    """Whether more may come."""
    reading: bool = False
    """Whether what was written before is still being read."""


def heading(view: RunView, about: Heading, width: int, now: float) -> Text:
    """Two lines: who and how far, then the numbers that matter."""
    snapshot = view.snapshot()
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(harmless(about.name), style=STRONG)
    text.append(f"  attempt {about.attempt}", style=DIM)
    text.append(_steps(snapshot.step, snapshot.total_steps))
    state = _state(view, about, now)
    if snapshot.total_steps:
        share = min(1.0, snapshot.step / snapshot.total_steps)
        room = width - text.cell_len - len(state) - 12
        if room >= 8:
            full = round(share * room)
            text.append("  ")
            text.append("━" * full, style=RATE)
            text.append("━" * (room - full), style="#3a424d")
        text.append(f" {percent(share)}", style=STRONG)
    text.append("  " + state, style=TROUBLE if "quiet" in state else DIM)
    text.append("\n")
    text.append(_numbers(view, width))
    return text


def _steps(step: int, total: int | None) -> str:
    return f"  step {step:,}" + (f" of {total:,}" if total else "")


def _state(view: RunView, about: Heading, now: float) -> str:
    if about.reading:
        return "reading"
    if not about.live:
        return "over"
    return quiet_words(view, now) or "running"


def quiet_words(view: RunView, now: float) -> str:
    """How long nothing has been told; empty where that is not long."""
    quiet = now - view.last_time if view.last_time is not None else 0.0
    return f"quiet for {span(quiet)}" if quiet > 30 else ""


def _numbers(view: RunView, width: int) -> Text:
    """The numbers that matter, as many as there is room for."""
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
    """The loss against steps."""
    return plot(view.curves.loss.points, width, height, lambda v: f"{v:.3g}", LOSS, DIM)


def rate_curve(view: RunView, width: int, height: int) -> Text:
    """Tokens per second against steps; steps per second where tokens are not known."""
    basis = view.metrics.basis()
    worth = float(basis.tokens_per_step) if basis is not None else 1.0
    points = inverted(view.curves.step_seconds, worth)
    return plot(points, width, height, three, RATE, DIM)


def rate_title(view: RunView) -> str:
    """What the second curve is."""
    return "tokens per second" if view.metrics.basis() is not None else "steps per second"


def norm_curve(view: RunView, width: int, height: int) -> Text:
    """The gradient norm against steps."""
    return plot(view.curves.grad_norm.points, width, height, three, NORM, DIM)


def inverted(series: Series, worth: float) -> list[Point]:
    """A curve of seconds as a curve of so much per second; the slowest stays the least."""
    return [
        Point(p.step, worth / p.mean, worth / p.most, worth / p.least, p.count, p.missing)
        for p in series.points
        if p.count and p.least > 0
    ]


def ranks(view: RunView, width: int, height: int) -> Text:
    """The ranks as cells, coloured by how far they are behind the median rank."""
    lag = view.lag()
    if lag is None:
        return Text("This log does not tell how long each rank took.", style=DIM)
    rows = max(1, height - 1)
    if lag.ranks * _NUMBERED <= width:
        return _few_ranks(lag)
    step = 2 if 2 * lag.ranks <= width * rows else 1
    cells, size = lag.cells(width // step * rows)
    across = min(len(cells), width // step)
    # Rows of a power of two keep the ranks of a node side by side.
    across = 1 << int(math.log2(across)) if len(cells) > across else across
    if -(-len(cells) // across) > rows:
        across = width // step
    text = Text(no_wrap=True)
    for begin in range(0, len(cells), across):
        for colour, same in itertools.groupby(map(lag_colour, cells[begin : begin + across])):
            text.append((_CELL + " " * (step - 1)) * sum(1 for _ in same), style=colour)
        text.append("\n")
    text.append(_slowest(lag))
    text.append("" if size == 1 else f" · a cell is {size:,} ranks", style=DIM)
    return text


def _few_ranks(lag: RankLag) -> Text:
    """So few ranks that each has its number."""
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
    said = f"rank {slowest[0]:,} is slowest, {percent(slowest[1])} behind"
    return Text(said, style=lag_colour(slowest[1]))


def ranks_title(view: RunView) -> str:
    """What the grid is of."""
    lag = view.lag()
    return "ranks" if lag is None else f"{lag.ranks:,} ranks, by lag behind the median"


def goodput(view: RunView, width: int, height: int) -> Text:
    """Where the wall time went: a bar, and what its colours mean."""
    spent = view.goodput()
    if not spent.wall:
        return Text("No time is accounted for yet.", style=DIM)
    text = Text()
    for bucket, cells in _cells(spent, width):
        text.append(" " * cells, style=f"on {BUCKET_COLOURS[bucket]}")
    text.append("\n")
    ordered = sorted(spent.seconds.items(), key=lambda item: -item[1])
    told = [(bucket, seconds) for bucket, seconds in ordered if seconds]
    text.append(
        _one_by_one(told, spent.wall)
        if len(told) < height
        else _in_lines(told, spent, width, height)
    )
    return text


def _one_by_one(told: list[tuple[Bucket, float]], wall: float) -> Text:
    """A line for each bucket."""
    text = Text()
    for bucket, seconds in told:
        text.append("■ ", style=BUCKET_COLOURS[bucket])
        text.append(f"{bucket:<11}{percent(seconds / wall):>7}")
        text.append(f"  {span(seconds)}\n", style=DIM)
    return text


def _in_lines(told: list[tuple[Bucket, float]], spent: Goodput, width: int, height: int) -> Text:
    """The buckets one after the other, as many as there are lines for."""
    text, line, used = Text(), Text(), 2
    for bucket, seconds in told:
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
    """How much of how long."""
    spent = view.goodput()
    if not spent.wall:
        return "goodput"
    again = f", {counted(spent.restarts, 'restart')}" if spent.restarts else ""
    return f"goodput {percent(spent.share)} of {span(spent.wall)}{again}"


def _cells(spent: Goodput, width: int) -> list[tuple[Bucket, int]]:
    """The characters of each bucket; they add up to the width, and none that counts is lost."""
    shares = {b: s / spent.wall * width for b, s in spent.seconds.items() if s > 0}
    cells = {bucket: int(share) for bucket, share in shares.items()}
    left = width - sum(cells.values())
    for bucket in sorted(shares, key=lambda b: cells[b] - shares[b])[:left]:
        cells[bucket] += 1
    return [(bucket, number) for bucket, number in cells.items() if number]


def events(view: RunView, width: int, height: int) -> Text:
    """The last notable events, the newest last."""
    text = Text(no_wrap=True, overflow="ellipsis")
    shown = list(view.events)[-max(1, height) :]
    for place, event in enumerate(shown):
        bad = event.kind is EventKind.FINDING or bool(event.values.get("error"))
        text.append("\n" if place else "")
        text.append(f"{clock(event.time)} ", style=DIM)
        words = shortened(harmless(event_words(event)), max(10, width - 9))
        text.append(words, style=TROUBLE if bad else "")
    return text if shown else Text("Nothing has happened yet.", style=DIM)


def events_title(view: RunView) -> str:
    """How many findings there are."""
    total = sum(view.found.values())
    return "last events" if not total else f"last events · {counted(total, 'finding')}"


def status_line(view: RunView) -> str:
    """The run in one plain line, for whoever reads without a terminal."""
    snapshot, spent, ahead = view.snapshot(), view.goodput(), view.outlook()
    parts = [
        f"step {snapshot.step:,}"
        + (f" of {snapshot.total_steps:,}" if snapshot.total_steps else "")
    ]
    if snapshot.loss is not None:
        parts.append(f"loss {loss_words(snapshot.loss)}")
    if snapshot.step_seconds:
        parts.append(f"{duration(snapshot.step_seconds)} a step")
    if snapshot.tokens_per_second:
        parts.append(f"{rate_words(snapshot.tokens_per_second)} tokens/s")
    if spent.wall:
        parts.append(f"goodput {percent(spent.share)}")
    if ahead is not None and snapshot.total_steps and snapshot.step < snapshot.total_steps:
        parts.append(f"done in {outlook_words(ahead)}")
    return " · ".join(parts)
