# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Small pictures as SVG text: stacked bars and a schedule. Colours come from the page's CSS."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 860
LABEL = 90
ROW = 26
GAP = 8


@dataclass(frozen=True, slots=True)
class BarPiece:
    """A part of a stacked bar."""

    name: str
    size: float
    """How long it is."""
    tip: str
    """What is said when one points at it."""


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    """What stands before it."""
    pieces: Sequence[BarPiece]
    """Its parts, from the left."""
    note: str
    """What stands behind it."""
    error: float = 0.0
    """Half the length of its error bar."""


def stacked(bars: Sequence[Bar], names: Sequence[str], limit: float, limit_label: str = "") -> str:
    """Stacked bars below each other; a line marks the limit, where there is one."""
    note_width = 170
    longest = max(limit, *(_length(bar) + bar.error for bar in bars))
    scale = (WIDTH - LABEL - note_width) / longest
    top = 22 if limit_label else 0
    height = top + len(bars) * (ROW + GAP)
    parts = []
    for position, bar in enumerate(bars):
        y = top + position * (ROW + GAP)
        parts.append(_text(0, y + ROW * 0.68, bar.label))
        x = float(LABEL)
        for piece in bar.pieces:
            width = piece.size * scale
            colour = list(names).index(piece.name)
            parts.append(_rectangle(x, y, width, ROW, f"c{colour}", piece.tip))
            x += width
        spread = bar.error * scale
        parts.append(_line("error", (x - spread, y + ROW / 2), (x + spread, y + ROW / 2)))
        parts.append(_text(x + spread + 8, y + ROW * 0.68, bar.note, "note"))
    if limit_label:
        x = LABEL + limit * scale
        parts.append(_line("limit", (x, 16), (x, height - GAP)))
        parts.append(_text(x, 12, limit_label, "note end"))
    return _svg(height, parts)


def _length(bar: Bar) -> float:
    """The length of a whole bar."""
    return sum(piece.size for piece in bar.pieces)


@dataclass(frozen=True, slots=True)
class Box:
    """A box of a schedule."""

    row: int
    """The row, from 0."""
    begin: float
    end: float
    style: str
    """Its class in the page's CSS."""
    word: str
    """What stands in it, if there is room."""
    tip: str
    """What is said when one points at it."""


def timeline(boxes: Sequence[Box], rows: Sequence[str]) -> str:
    """Boxes in rows along time."""
    scale = (WIDTH - LABEL) / max(box.end for box in boxes)
    parts = [_text(0, row * (ROW + 2) + ROW * 0.68, name) for row, name in enumerate(rows)]
    for box in boxes:
        x, y = LABEL + box.begin * scale, box.row * (ROW + 2)
        width = (box.end - box.begin) * scale
        parts.append(_rectangle(x, y, max(0.5, width - 0.6), ROW, box.style, box.tip))
        if width > 7 * len(box.word) + 4:
            parts.append(_text(x + width / 2, y + ROW * 0.68, box.word, "inside"))
    return _svg(len(rows) * (ROW + 2), parts)


def legend(names: Sequence[str]) -> str:
    """What each colour of stacked bars means."""
    items = "".join(
        f'<span><i class="c{position}"></i>{escape(name)}</span>'
        for position, name in enumerate(names)
    )
    return f'<p class="legend">{items}</p>'


def _rectangle(x: float, y: float, width: float, height: float, style: str, tip: str) -> str:
    """A rectangle with a tip."""
    return (
        f'<rect class="{style}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}">'
        f"<title>{escape(tip)}</title></rect>"
    )


def _line(style: str, start: tuple[float, float], end: tuple[float, float]) -> str:
    """A line between two points."""
    (x1, y1), (x2, y2) = start, end
    return f'<line class="{style}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, words: str, style: str = "") -> str:
    """Words at a place."""
    kind = f' class="{style}"' if style else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}">{escape(words)}</text>'


def _svg(height: float, parts: Sequence[str]) -> str:
    """The picture, as wide as the page."""
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" xmlns="http://www.w3.org/2000/svg">'
        f"{''.join(parts)}</svg>"
    )
