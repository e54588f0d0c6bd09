# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Runs that somebody measured get no error: a sample of what the script checks in full."""

from backtest.checks.published_runs import BARS, checked_rows

NODE_LINKS = "ST-LAYOUT-014"
"""Groups over NVLink between nodes, which GB200 racks have and manifests do not set up yet."""
EVERY = 80
"""Of the rows, so that a sample takes seconds."""


def test_published_runs_get_no_error() -> None:
    found = checked_rows(EVERY)
    assert len(found) > 20
    assert BARS["errors"] == 0
    errors = {one.row: [text for text in one.errors if NODE_LINKS not in text] for one in found}
    assert {row: texts for row, texts in errors.items() if texts} == {}
