# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Runs that somebody measured get no error: a sample of what the script checks in full."""

from backtest.checks.published_runs import BARS, checked_rows

EVERY = 80
"""Of the rows, so that a sample takes seconds."""


def test_published_runs_get_no_error() -> None:
    found = checked_rows(EVERY)
    assert len(found) > 20
    assert BARS["errors"] == 0
    assert {one.row: one.errors for one in found if one.errors} == {}
