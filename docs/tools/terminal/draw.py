# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Draw terminal output as SVG: still, or replayed from a recording.

Every picture comes in a light and a dark version. Pages choose between them by the reader's theme,
which an SVG in an `<img>` cannot see. The animation is CSS alone. A reader who asks for reduced
motion sees the last screen.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from re import finditer, fullmatch

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

CELL, LINE, SIZE, PADDING, BAR = 8.4, 19.0, 14, 16.0, 34.0
"""Width of a column, height of a line, size of the font, margin, height of the window's bar."""
FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
LONGEST_WAIT = 1.0
"""Seconds that a replay shows of a wait."""
SHORTEST_WAIT = 0.05
TYPING = 0.035
"""Seconds for each character of a command that is typed."""
HOLD = 7.0
"""Seconds that the last screen stays."""


@dataclass(frozen=True, slots=True)
class Theme:
    name: str
    background: str
    bar: str
    text: str
    faint: str
    prompt: str
    colours: tuple[str, ...]
    """Black, red, green, yellow, blue, magenta, cyan, white."""


LIGHT = Theme(
    *("light", "#fbfcfd", "#e6ebf0", "#1c2733", "#5d6b79", "#0b5c8a"),
    ("#1c2733", "#b42318", "#15803d", "#a15c07", "#2f6fb0", "#7c3aed", "#0e7490", "#5d6b79"),
)
DARK = Theme(
    *("dark", "#12181f", "#1d2630", "#dbe4ec", "#8b9aa8", "#6cc1f2"),
    ("#dbe4ec", "#ff8f87", "#6ad592", "#f0c060", "#7ab7f5", "#c4a5ff", "#67d5e6", "#8b9aa8"),
)
THEMES = (LIGHT, DARK)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a recording: when it came, after the first; a command is what somebody typed."""

    seconds: float
    text: str
    is_command: bool = False


def wrapped(lines: Sequence[Line], columns: int) -> list[Line]:
    """The lines as a terminal of that width breaks them; colours go on in the next line."""
    found = []
    for line in lines:
        text, width, colour = "", 0, ""
        for match in finditer(r"\x1b\[[0-9;]*m|.", line.text):
            if fullmatch(r"\x1b\[[0-9;]*m", match[0]):
                colour = match[0]
            elif width + cell_len(match[0]) > columns:
                found.append(Line(line.seconds, text, line.is_command))
                text, width = colour, 0
            text += match[0]
            width += 0 if match[0].startswith("\x1b") else cell_len(match[0])
        found.append(Line(line.seconds, text, line.is_command))
    return found


def still(lines: Sequence[Line], columns: int, title: str, theme: Theme) -> str:
    """A picture of all lines."""
    shown = wrapped(lines, columns)
    body = [_line(line, row, theme) for row, line in enumerate(shown)]
    return _window(body, len(shown), columns, title, theme)


def replay(lines: Sequence[Line], columns: int, rows: int, title: str, theme: Theme) -> str:
    """An animation in a window of so many rows, with the waits shortened."""
    shown = paced(wrapped(lines, columns))
    length = shown[-1].seconds + HOLD
    body = [_line(line, row, theme) for row, line in enumerate(shown)]
    covers = [
        _typing(line, row, length, theme)
        for row, line in enumerate(shown)
        if line.is_command and row
    ]
    heights = [(line.seconds, row + 1) for row, line in enumerate(shown)]
    last = max(0, len(shown) - rows)
    scroll = {seconds: -max(0, height - rows) * LINE for seconds, height in heights}
    reveal = {seconds: min(height, rows) * LINE for seconds, height in heights}
    style = [
        _keyframes("scroll", scroll, length),
        _keyframes("reveal", {0.0: LINE, **reveal}, length),
        f".scroll{{transform:translateY({-last * LINE:.0f}px)}}",
        f".reveal{{transform:translateY({rows * LINE:.0f}px)}}.typed{{transform:scaleX(0)}}",
        "@media(prefers-reduced-motion:no-preference){",
        f".scroll{{animation:scroll {length:.2f}s step-end infinite}}",
        f".reveal{{animation:reveal {length:.2f}s step-end infinite}}",
        *(rule for _, rule, _ in covers),
        "}",
        *(frames for _, _, frames in covers),
    ]
    width, height = columns * CELL, rows * LINE
    clipped = [
        f'<clipPath id="screen"><rect x="-6" width="{width + 12:.0f}" height="{height:.0f}"/>'
        "</clipPath>",
        '<g clip-path="url(#screen)"><g class="scroll">',
        *body,
        *(shape for shape, _, _ in covers),
        "</g>",
        f'<rect class="reveal" x="-8" width="{width + 16:.0f}" height="{height:.0f}" '
        f'fill="{theme.background}"/></g>',
    ]
    return _window(clipped, rows, columns, title, theme, "".join(style))


def paced(lines: Sequence[Line]) -> list[Line]:
    """The lines with shortened waits, and with time for typing before a command's line ends."""
    paced = [Line(0.0, lines[0].text, lines[0].is_command)]
    for before, line in pairwise(lines):
        wait = min(LONGEST_WAIT, max(SHORTEST_WAIT, line.seconds - before.seconds))
        if before.is_command:
            wait += _typing_time(before)
        if line.is_command:
            wait = LONGEST_WAIT
        paced.append(Line(paced[-1].seconds + wait, line.text, line.is_command))
    return paced


def _typing_time(line: Line) -> float:
    return TYPING * len(line.text) + 0.3


def _typing(line: Line, row: int, length: float, theme: Theme) -> tuple[str, str, str]:
    """What covers a command until it is typed: the shape, its rule and its keyframes."""
    width = cell_len(line.text) * CELL
    begin, end = line.seconds, line.seconds + TYPING * len(line.text)
    shape = (
        f'<rect class="typed t{row}" x="{2 * CELL:.1f}" y="{row * LINE:.1f}" width="{width:.1f}" '
        f'height="{LINE:.0f}" fill="{theme.background}" '
        f'style="transform-origin:{2 * CELL + width:.1f}px 0"/>'
    )
    rule = f".t{row}{{animation:t{row} {length:.2f}s linear infinite}}"
    frames = (
        f"@keyframes t{row}{{0%,{100 * begin / length:.3f}%{{transform:scaleX(1)}}"
        f"{100 * end / length:.3f}%,100%{{transform:scaleX(0)}}}}"
    )
    return shape, rule, frames


def _keyframes(name: str, steps: Mapping[float, float], length: float) -> str:
    frames, before = [], None
    for seconds, offset in steps.items():
        if offset != before:
            at = 100 * seconds / length
            frames.append(f"{at:.3f}%{{transform:translateY({offset:.0f}px)}}")
            before = offset
    return f"@keyframes {name}{{{''.join(frames)}100%{{transform:translateY({before:.0f}px)}}}}"


def _window(
    body: Sequence[str], rows: int, columns: int, title: str, theme: Theme, style: str = ""
) -> str:
    width = columns * CELL + 2 * PADDING
    height = rows * LINE + BAR + 2 * PADDING
    rules = (
        f"text{{font:{SIZE}px {FONT};fill:{theme.text};white-space:pre}}"
        f".b{{font-weight:700}}.d{{fill:{theme.faint}}}.p{{fill:{theme.prompt};font-weight:700}}"
    )
    colours = "".join(f".c{i}{{fill:{colour}}}" for i, colour in enumerate(theme.colours))
    dots = "".join(
        f'<circle cx="{18 + 18 * i}" cy="{BAR / 2:.0f}" r="5" fill="{theme.faint}" opacity=".45"/>'
        for i in range(3)
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}">',
            f"<title>{escape(title)}</title>",
            f"<style>{rules}{colours}{style}</style>",
            f'<rect width="{width:.0f}" height="{height:.0f}" rx="10" fill="{theme.background}" '
            f'stroke="{theme.bar}"/>',
            f'<path d="M0 {BAR:.0f}V10a10 10 0 0 1 10-10h{width - 20:.0f}a10 10 0 0 1 10 10'
            f'v{BAR - 10:.0f}z" fill="{theme.bar}"/>',
            dots,
            f'<text class="d" x="{width / 2:.0f}" y="{BAR / 2 + 5:.0f}" text-anchor="middle">'
            f"{escape(title)}</text>",
            f'<g transform="translate({PADDING:.0f} {BAR + PADDING:.0f})">',
            *body,
            "</g>",
            "</svg>\n",
        ]
    )


def _line(line: Line, row: int, theme: Theme) -> str:
    baseline = row * LINE + 14
    if line.is_command:
        return _word(0, baseline, "$", "p") + _word(2, baseline, line.text, "b")
    return "".join(_word(column, baseline, text, css) for column, text, css in _pieces(line.text))


def _pieces(text: str) -> Iterator[tuple[int, str, str]]:
    """The parts of a line between wide gaps, each with its column and its classes.

    Every part is placed by itself, so that columns stay aligned in whatever font is there.
    """
    column = 0
    console = Console(width=400, color_system="standard")
    for segment in Text.from_ansi(text).render(console, end=""):
        for match in finditer(r"\S+(?: \S+)*", segment.text):
            before = cell_len(segment.text[: match.start()])
            yield column + before, match[0], _classes(segment.style)
        column += cell_len(segment.text)


def _classes(style: Style | None) -> str:
    if style is None:
        return ""
    names = ["b"] if style.bold else []
    if style.dim:
        names.append("d")
    elif style.color is not None and style.color.number is not None:
        names.append(f"c{style.color.number % 8}")
    return " ".join(names)


def _word(column: int, y: float, text: str, css: str) -> str:
    name = f' class="{css}"' if css else ""
    return (
        f'<text{name} x="{column * CELL:.1f}" y="{y:.0f}" '
        f'textLength="{cell_len(text) * CELL:.1f}" lengthAdjust="spacingAndGlyphs">'
        f"{escape(text, quote=False)}</text>\n"
    )
