# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Curves in a terminal, drawn with Braille patterns: two by four dots per character."""

import math
from collections.abc import Callable, Sequence

from rich.text import Text

from seatrial.monitoring.series import Point

_BLANK = 0x2800
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""The bit of each dot, by column, then by row from the top."""
LABEL = 8
"""The columns for the scale to the left of a curve."""

Number = Callable[[float], str]


def plot(
    points: Sequence[Point], width: int, height: int, number: Number, colour: str, dim: str
) -> Text:
    """Draw a curve with its scale, from the minimum to the maximum of each column.

    Values that are not numbers are marked in red below the curve.
    """
    columns, rows = max(4, width - LABEL), max(1, height - 1)
    known = [point for point in points if point.count]
    if not known:
        return Text("no data yet", style=dim)
    # A resumed start can begin before the first point.
    first, last = min(point.step for point in points), max(point.step for point in points)
    low, high = min(p.least for p in known), max(p.most for p in known)
    spans, bad = _columns(points, 2 * columns, first, last)
    dots = _dotted(spans, 4 * rows, low, high)
    lines = Text(no_wrap=True)
    for row in range(rows):
        label = number(high) if row == 0 else number(low) if row == rows - 1 else ""
        label = label[: LABEL - 2]
        lines.append(f"{label:>{LABEL - 2}} ▏", style=dim)
        lines.append(_row(dots, row, columns), style=colour)
        lines.append("\n")
    lines.append(_axis(first, last, columns, bad, dim))
    return lines


def _columns(
    points: Sequence[Point], columns: int, first: int, last: int
) -> tuple[list[tuple[float, float] | None], set[int]]:
    """Return the range of each column of dots, and the characters with non-numbers."""
    spans: list[tuple[float, float] | None] = [None] * columns
    bad: set[int] = set()
    scale = (columns - 1) / max(1, last - first)
    before: tuple[int, float] | None = None
    for point in points:
        place = round((point.step - first) * scale)
        if point.missing:
            bad.add(place // 2)
        if not point.count:
            before = None
            continue
        _widen(spans, place, point.least, point.most)
        if before is not None and place - before[0] > 1:
            _join(spans, before, (place, point.mean))
        before = (place, point.mean)
    return spans, bad


def _join(
    spans: list[tuple[float, float] | None], one: tuple[int, float], two: tuple[int, float]
) -> None:
    """Draw a straight line between two points."""
    for place in range(one[0] + 1, two[0]):
        value = one[1] + (two[1] - one[1]) * (place - one[0]) / (two[0] - one[0])
        _widen(spans, place, value, value)


def _widen(spans: list[tuple[float, float] | None], place: int, low: float, high: float) -> None:
    span = spans[place]
    spans[place] = (low, high) if span is None else (min(span[0], low), max(span[1], high))


def _dotted(
    spans: Sequence[tuple[float, float] | None], rows: int, low: float, high: float
) -> list[tuple[int, int] | None]:
    """Return the rows of dots of each column, from the top, without gaps between neighbours."""
    scale = (rows - 1) / (high - low) if high > low else 0.0
    middle = 0 if high > low else rows // 2
    dotted: list[tuple[int, int] | None] = []
    for span in spans:
        if span is None:
            dotted.append(None)
            continue
        top = rows - 1 - math.floor((span[1] - low) * scale + 0.5) - middle
        bottom = rows - 1 - math.floor((span[0] - low) * scale + 0.5) - middle
        if dotted and dotted[-1] is not None:
            before = dotted[-1]
            top = min(top, before[1] + 1)
            bottom = max(bottom, before[0] - 1)
        dotted.append((top, bottom))
    return dotted


def _row(dots: Sequence[tuple[int, int] | None], row: int, columns: int) -> str:
    """Return one row of characters."""
    letters = []
    for column in range(columns):
        bits = 0
        for side in (0, 1):
            span = dots[2 * column + side]
            if span is None:
                continue
            for dot in range(4):
                if span[0] <= 4 * row + dot <= span[1]:
                    bits |= _DOTS[side][dot]
        letters.append(chr(_BLANK + bits))
    return "".join(letters)


def _axis(first: int, last: int, columns: int, bad: set[int], dim: str) -> Text:
    """Return the step axis, with red marks at non-numbers."""
    left, right = f"{first:,}", f"step {last:,}"
    words = left + " " * max(1, columns - len(left) - len(right)) + right
    line = Text(" " * LABEL)
    for column, letter in enumerate(words[:columns]):
        marked = column in bad
        line.append("▲" if marked else letter, style="bold #ff5566" if marked else dim)
    return line
