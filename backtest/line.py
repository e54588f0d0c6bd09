# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One line of the back-test: what was measured, and the bar beside it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    title: str
    rows: int
    """Published rows, or groups of them, that were scored."""
    measured: str
    bar: str = ""
    """What it has to reach; empty without a bar."""
    met: bool = True
