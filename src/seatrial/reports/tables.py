# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Tables that fit the terminal: names are not broken, text wraps, minor columns are dropped."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from seatrial.reports.terminal import columns as terminal_columns
from seatrial.reports.terminal import say, say_text, wrapped

GAP = "  "


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    header: str
    """The title of the column, with the unit if there is one."""
    number: bool = False
    """True if it contains numbers, which are right-aligned."""
    whole: bool = False
    """True if its cells are never broken."""
    rank: int = 0
    """If the table is too wide, the column of the highest rank is dropped first; 0 never is."""


def text(header: str, rank: int = 0) -> Column:
    """Return a column of text, which wraps."""
    return Column(header, rank=rank)


def name(header: str, rank: int = 0) -> Column:
    """Return a column of names, which are never broken."""
    return Column(header, whole=True, rank=rank)


def number(header: str, rank: int = 0) -> Column:
    """Return a column of numbers, or of a number and its unit."""
    return Column(header, number=True, whole=True, rank=rank)


def say_table(
    columns: Sequence[Column], rows: Iterable[Sequence[str]], width: int | None = None
) -> None:
    """Print a table.

    Args:
        columns: The columns.
        rows: The cells of each row.
        width: The maximum width if stdout is not a terminal; by default, the table is as wide as
            its content.
    """
    table = [tuple(column.header for column in columns), *map(tuple, rows)]
    width = terminal_columns() or width
    kept = _kept(columns, table, width)
    widths = _widths(columns, table, kept, width)
    for row in table:
        cells = [wrapped(row[i], widths[i]) if len(row[i]) > widths[i] else [row[i]] for i in kept]
        for line in zip_longest(*cells, fillvalue=""):
            aligned = (
                f"{part:>{widths[i]}}" if columns[i].number else f"{part:<{widths[i]}}"
                for i, part in zip(kept, line, strict=True)
            )
            say(GAP.join(aligned).rstrip())
    left_out = [column.header for i, column in enumerate(columns) if i not in kept]
    if left_out:
        say_text(
            f"The output is too narrow ({width} characters) for: {', '.join(left_out)}. To see all "
            "columns, use --json.",
            rest="",
        )


def fits_terminal(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> bool:
    """Return True if the columns that are never dropped fit the terminal."""
    width = terminal_columns()
    table = [tuple(column.header for column in columns), *map(tuple, rows)]
    needed = [_least(columns, table, i) for i, column in enumerate(columns) if column.rank == 0]
    return width is None or sum(needed) + len(GAP) * (len(needed) - 1) <= width


def _least(columns: Sequence[Column], table: Sequence[Sequence[str]], i: int) -> int:
    """Return the minimum width of a column: its longest cell, or its longest word."""
    if columns[i].whole:
        return max(len(row[i]) for row in table)
    return max(len(word) for row in table for word in row[i].split() or [""])


def _kept(
    columns: Sequence[Column], table: Sequence[Sequence[str]], width: int | None
) -> list[int]:
    """Return the indices of the columns that fit."""
    kept = list(range(len(columns)))
    least = [_least(columns, table, i) for i in kept]
    while width and sum(least[i] for i in kept) + len(GAP) * (len(kept) - 1) > width:
        lesser = max(kept, key=lambda i: columns[i].rank)
        if columns[lesser].rank == 0:
            break
        kept.remove(lesser)
    return kept


def _widths(
    columns: Sequence[Column],
    table: Sequence[Sequence[str]],
    kept: Sequence[int],
    width: int | None,
) -> dict[int, int]:
    """Return the width of each column that is kept; the widest text column shrinks first."""
    widths = {i: max(len(row[i]) for row in table) for i in kept}
    least = {i: _least(columns, table, i) for i in kept}
    while width and sum(widths.values()) + len(GAP) * (len(kept) - 1) > width:
        widest = max(kept, key=lambda i: widths[i] - least[i])
        if widths[widest] == least[widest]:
            break
        widths[widest] -= 1
    return widths
