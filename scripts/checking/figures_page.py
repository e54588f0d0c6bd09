# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The page of the check's figures: each table stands between two comments that name it."""

import re
from collections.abc import Sequence
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "check-figures.md"


def put_rows(name: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Replace those rows of a table that are given, by their first cell; keep the others."""
    page = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- end -->", page, re.DOTALL)
    body = found[1].splitlines()[2:] if found else []
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in body]
    kept = {row[0]: row for row in cells} | {row[0]: list(row) for row in rows}
    put_table(name, head, list(kept.values()))


def put_table(name: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Replace a table of the page."""
    lines = [head, ["---"] * len(head), *rows]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    page = PAGE.read_text(encoding="utf-8")
    between = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not between.search(page):
        raise ValueError(f"{PAGE.name} has no place for the table {name}")
    PAGE.write_text(between.sub(lambda found: f"{found[1]}{body}\n{found[2]}", page), "utf-8")
