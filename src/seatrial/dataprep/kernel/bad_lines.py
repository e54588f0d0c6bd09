# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Count the bad lines of a task, and fail if there are too many."""

from collections import Counter
from collections.abc import Sequence

from seatrial.codes.data import BadInputError, InputCode
from seatrial.dataprep.documents.batches import BadLine

_PLACES_SHOWN = 5
"""Most bad lines to list in an error."""
_ALL_BAD = 10_000
"""If this many lines are all bad, the task fails: the field or the files are wrong, and reading on
would only make the list longer."""


class BadLines:
    """The bad lines of one task."""

    def __init__(self, task_size: int, largest_share: float) -> None:
        """Start with no bad lines.

        Args:
            task_size: Stored bytes of the task's inputs.
            largest_share: Share of all lines that may be bad.
        """
        self.counts: Counter[str] = Counter()
        """Number of bad lines by reason."""
        self._task_size = task_size
        self._largest_share = largest_share
        self._first: list[BadLine] = []

    def add(self, lines: Sequence[BadLine]) -> None:
        """Count bad lines."""
        self.counts.update(str(line.reason) for line in lines)
        self._first += lines[: _PLACES_SHOWN - len(self._first)]

    def check_share(self, lines: int) -> None:
        """Raise an error if the share of bad lines is too large."""
        bad = self.counts.total()
        if bad <= self._largest_share * lines:
            return
        places = ", ".join(f"{each.place} ({each.reason})" for each in self._first)
        raise self._error(
            f"{bad:,} of {lines:,} lines are bad ({self._reasons()}), more than the allowed share"
            f" of {self._largest_share:g}. The first: {places}.",
            bad / lines,
        )

    def check_all_bad(self, read: int) -> None:
        """Fail early if no line is good so far and the rest cannot make up for it.

        Args:
            read: Stored bytes of the task that gave at most the lines so far.
        """
        bad = self.counts.total()
        if bad < _ALL_BAD or not read:
            return
        # If the rest has as many lines per byte, this many bad lines are allowed in total.
        if bad <= self._largest_share * bad * self._task_size / read:
            return
        raise self._error(
            f"all of the first {bad:,} lines are bad ({self._reasons()}), and the allowed share is"
            f" {self._largest_share:g}, so the rest was not read. The first starts with"
            f" {self._first[0].shown}",
            1.0,
        )

    def _reasons(self) -> str:
        return ", ".join(f"{count:,} {reason}" for reason, count in sorted(self.counts.items()))

    def _error(self, rule: str, share: float) -> BadInputError:
        first = self._first[0].place
        return BadInputError(
            InputCode.BAD_SHARE,
            first.address,
            rule,
            "Fix them, check text_field and domain_field of the source, or raise"
            " data.preparation.largest_bad_share.",
            f"{share:.2g}",
            line=first.line,
        )
