# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Shapes of pictures as SVG text, on a light ground that dark pages keep."""

from collections.abc import Sequence
from html import escape

WIDTH = 860
INK = "#1c2733"
GREY = "#5d6b79"
PALE = "#eef2f6"
FAINT = "#c9d3dd"
COLOURS = ("#2f6fb0", "#b45309", "#15803d", "#7c3aed", "#be185d")
"""Readable on white, and apart from each other for most who see colours otherwise."""


def picture(height: float, title: str, parts: Sequence[str], width: int = WIDTH) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" '
            f'width="{width}" height="{height:.0f}" font-family="sans-serif" font-size="13">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height:.0f}" rx="8" fill="#ffffff"/>',
            *parts,
            "</svg>\n",
        ]
    )


def box(
    x: float, y: float, width: float, height: float, fill: str = PALE, line: str = FAINT
) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3" '
        f'fill="{fill}" stroke="{line}"/>'
    )


def words(
    x: float, y: float, text: str, anchor: str = "start", colour: str = INK, size: int = 13
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" '
        f'font-size="{size}">{escape(text)}</text>'
    )


def line(x1: float, y1: float, x2: float, y2: float, colour: str = FAINT, width: float = 1) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width}"/>'
    )


def dot(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'


def arrow(x1: float, x2: float, y: float, colour: str) -> str:
    back = 8 if x2 > x1 else -8
    head = f"{x2:.1f},{y:.1f} {x2 - back:.1f},{y - 4:.1f} {x2 - back:.1f},{y + 4:.1f}"
    return line(x1, y, x2 - back, y, colour, 2) + f'<polygon points="{head}" fill="{colour}"/>'
