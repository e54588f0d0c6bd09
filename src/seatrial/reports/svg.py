# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Small SVG pictures: stacked bars, a schedule and curves. Colours come from the CSS of the page.

The text of bars is HTML next to the picture, so that it keeps its size on a narrow screen and no
label can cover a bar or a line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 860
LABEL = 70
ROW = 26
SMALLEST_BOX = 0.5
CURVE = 44
"""Height of a row of curves."""
CAP = 8
"""Half the height of the caps of an error bar."""


@dataclass(frozen=True, slots=True)
class BarPiece:
    """A part of a stacked bar."""

    name: str
    size: float
    tip: str
    """The tooltip."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A stacked bar with its texts."""

    label: str
    """The text before it."""
    pieces: Sequence[BarPiece]
    """Its parts, from the left."""
    note: str
    """The text after it."""
    error: float = 0.0
    """Half the length of its error bar."""


def stacked(bars: Sequence[Bar], names: Sequence[str], limit: float | None = None) -> str:
    """Return stacked bars below each other, with a line at the limit if there is one.

    The colour of a piece is the position of its name among `names`.
    """
    longest = max(limit or 0.0, *(_length(bar) + bar.error for bar in bars))
    scale = WIDTH / longest
    rows = "".join(
        f'<div class="bar"><span>{escape(bar.label)}</span>{_bar(bar, names, scale, limit)}'
        f'<span class="note">{escape(bar.note)}</span></div>'
        for bar in bars
    )
    return f'<div class="bars">{rows}</div>'


def _bar(bar: Bar, names: Sequence[str], scale: float, limit: float | None) -> str:
    """Return the picture of one bar, which is stretched to the width of its column."""
    parts = []
    x = 0.0
    for piece in bar.pieces:
        if piece.size:
            width = piece.size * scale
            colour = list(names).index(piece.name)
            parts.append(_rectangle(x, 0, width, ROW, f"c{colour}", piece.tip))
            x += width
    if limit is not None:
        at = min(limit * scale, WIDTH - 1)
        parts += [_line(style, (at, 0), (at, ROW)) for style in ("halo", "limit")]
    if bar.error:
        parts += _error_bar(x, bar.error * scale)
    label = escape(f"{bar.label}: {bar.note}")
    return (
        f'<svg viewBox="0 0 {WIDTH} {ROW}" preserveAspectRatio="none" role="img" '
        f'aria-label="{label}" xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg>'
    )


def _error_bar(x: float, spread: float) -> list[str]:
    """Return an error bar: a line with caps, on a wider line in the colour of the page."""
    low, high, middle = max(1.0, x - spread), min(WIDTH - 1.0, x + spread), ROW / 2
    lines = [
        ((low, middle), (high, middle)),
        ((low, middle - CAP), (low, middle + CAP)),
        ((high, middle - CAP), (high, middle + CAP)),
    ]
    return [_line(style, *ends) for style in ("halo", "error") for ends in lines]


def _length(bar: Bar) -> float:
    """Return the length of a whole bar."""
    return sum(piece.size for piece in bar.pieces)


@dataclass(frozen=True, slots=True)
class Box:
    """A box in a schedule."""

    row: int
    """The row, from 0."""
    begin: float
    end: float
    style: str
    """Its CSS class."""
    word: str
    """The text in it, if there is space."""
    tip: str
    """The tooltip."""


def timeline(boxes: Sequence[Box], rows: Sequence[str]) -> str:
    """Return boxes in rows along time; on a narrow screen, the picture scrolls."""
    scale = (WIDTH - LABEL) / max(box.end for box in boxes)
    parts = [_text(0, row * (ROW + 2) + ROW * 0.68, name) for row, name in enumerate(rows)]
    for box in boxes:
        x, y = LABEL + box.begin * scale, box.row * (ROW + 2)
        width = (box.end - box.begin) * scale
        parts.append(_rectangle(x, y, max(SMALLEST_BOX, width - 0.6), ROW, box.style, box.tip))
        if box.word and width > 6.2 * len(box.word) + 2:
            parts.append(_text(x + width / 2, y + ROW * 0.66, box.word, "inside"))
    height = len(rows) * (ROW + 2)
    return (
        f'<div class="scroll"><svg class="timeline" viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg></div>'
    )


@dataclass(frozen=True, slots=True)
class Curve:
    """Values over time, in a row of their own."""

    label: str
    """The text before it."""
    points: Sequence[tuple[float, float]]
    """Times and values, in order; a value holds until the next one."""
    style: str
    """Its CSS class."""
    tip: str
    """The tooltip."""
    note: str = ""
    """The text below the label."""


def curves(rows: Sequence[Sequence[Curve]], limit: float | None = None) -> str:
    """Return rows of curves along the same time; the first curve of a row is filled.

    Filled curves have the same scale, and a line at the limit if there is one. Each other curve is
    drawn from zero to its own maximum.
    """
    ends = [curve.points[-1][0] for row in rows for curve in row if curve.points]
    across = (WIDTH - LABEL) / (max(ends, default=0.0) or 1.0)
    highest = max((value for row in rows for _, value in row[0].points), default=0.0)
    highest = max(highest, limit or 0.0) or 1.0
    parts = []
    for number, row in enumerate(rows):
        foot = (number + 1) * (CURVE + 4)
        parts.append(_text(0, foot - CURVE * 0.6, row[0].label))
        parts.append(_text(0, foot - CURVE * 0.2, row[0].note))
        for curve in row:
            top = highest if curve is row[0] else max((v for _, v in curve.points), default=0) or 1
            parts.append(_curve(curve, across, CURVE / top, foot, filled=curve is row[0]))
        if limit is not None:
            y = foot - limit * CURVE / highest
            parts.append(_line("limit", (LABEL, y), (WIDTH, y)))
    height = len(rows) * (CURVE + 4) + 2
    return (
        f'<div class="scroll"><svg class="timeline" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(parts)}</svg></div>'
    )


def _curve(curve: Curve, across: float, up: float, foot: float, *, filled: bool) -> str:
    """Return a curve as steps; changes within half a pixel are drawn as their maximum."""
    corners: list[tuple[float, float]] = []
    for time, value in curve.points:
        x, y = LABEL + time * across, foot - value * up
        if corners and x - corners[-1][0] < SMALLEST_BOX:
            corners[-1] = (corners[-1][0], min(y, corners[-1][1]))
        else:
            corners.append((x, y))
    path = f"M{corners[0][0]:.1f} {foot:.1f}" if filled and corners else ""
    for number, (x, y) in enumerate(corners):
        start = "M" if not path else "L"
        path += f"{start}{x:.1f} {corners[max(0, number - 1)][1]:.1f}L{x:.1f} {y:.1f}"
    if filled and corners:
        path += f"L{corners[-1][0]:.1f} {foot:.1f}Z"
    return f'<path class="{curve.style}" d="{path}"><title>{escape(curve.tip)}</title></path>'


def legend(names: Sequence[str], shown: Sequence[str], *others: tuple[str, str]) -> str:
    """Return the meaning of the colours that are shown, then of other CSS classes."""
    entries = [(f"c{position}", name) for position, name in enumerate(names) if name in shown]
    items = "".join(
        f'<span><i class="{style}"></i>{escape(name)}</span>' for style, name in (*entries, *others)
    )
    return f'<p class="legend">{items}</p>'


def _rectangle(x: float, y: float, width: float, height: float, style: str, tip: str) -> str:
    """Return a rectangle with a tooltip."""
    return (
        f'<rect class="{style}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}">'
        f"<title>{escape(tip)}</title></rect>"
    )


def _line(style: str, start: tuple[float, float], end: tuple[float, float]) -> str:
    """Return a line between two points."""
    (x1, y1), (x2, y2) = start, end
    return f'<line class="{style}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, words: str, style: str = "") -> str:
    """Return a text at a position."""
    kind = f' class="{style}"' if style else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'
