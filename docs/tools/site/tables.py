# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Marks in tables for `docs/static/site.css`.

Tables with many columns become lists on a phone, where each cell shows the label of its column.
Short names do not break.
"""

from docutils import nodes  # type: ignore[import-untyped]
from sphinx.application import Sphinx

FEWEST_COLUMNS = 4
"""Tables with fewer columns fit a phone as they are."""
LONGEST_SHORT = 16
"""Characters of a name that is kept in one line."""


def label_cells(_app: Sphinx, document: nodes.document, _name: str) -> None:
    """Add a label to each cell of the wide tables of a page, and mark short names in all."""
    for table in document.findall(nodes.table):
        for literal in table.findall(nodes.literal):
            if len(literal.astext()) <= LONGEST_SHORT:
                literal["classes"].append("short")
        heads = [row for head in table.findall(nodes.thead) for row in head.findall(nodes.row)]
        if not heads:
            continue
        labels = [entry.astext() for entry in heads[0].findall(nodes.entry)]
        if len(labels) < FEWEST_COLUMNS:
            continue
        table["classes"].append("stacked")
        for body in table.findall(nodes.tbody):
            for row in body.findall(nodes.row):
                _label_row(row, labels)


def _label_row(row: nodes.row, labels: list[str]) -> None:
    for entry, label in zip(row.findall(nodes.entry), labels, strict=False):
        if label and entry.astext():
            entry.insert(0, nodes.inline("", label, classes=["column-label"]))
