# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One line of the back-test: what was measured, and the bar beside it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One measured figure."""

    title: str
    """What was predicted, of which source."""
    rows: int
    """Published rows, or groups of them, that were scored."""
    measured: str
    """The figure, with its unit."""
    bar: str
    """What it has to reach, or nothing."""
    met: bool
    """Whether it does; true where there is no bar."""
