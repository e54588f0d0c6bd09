# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How many lines of a task cannot be used, and when that is too many."""

from collections import Counter
from collections.abc import Sequence

from seatrial.codes.data import BadInputError, InputCode
from seatrial.dataprep.documents.batches import BadLine

_PLACES_SHOWN = 5
"""Bad lines that an error names."""
_ALL_BAD = 10_000
"""Lines after which a task ends when every one of them is bad: then the field is the wrong one, or
the files are, and reading on would only make the list of them longer."""


class BadLines:
    """The bad lines of one task."""

    def __init__(self, task_size: int, largest_share: float) -> None:
        """Begin with none.

        Args:
            task_size: Bytes of the task's inputs as stored.
            largest_share: Share of all lines that may be bad.
        """
        self.counts: Counter[str] = Counter()
        """How many there are, by reason."""
        self._task_size = task_size
        self._largest_share = largest_share
        self._first: list[BadLine] = []

    def add(self, lines: Sequence[BadLine]) -> None:
        """Count lines that cannot be used."""
        self.counts.update(str(line.reason) for line in lines)
        self._first += lines[: _PLACES_SHOWN - len(self._first)]

    def check_share(self, lines: int) -> None:
        """Fail when more of all lines are bad than is allowed."""
        bad = self.counts.total()
        if bad <= self._largest_share * lines:
            return
        places = ", ".join(f"{each.place} ({each.reason})" for each in self._first)
        raise self._error(
            f"{bad:,} of {lines:,} lines cannot be used ({self._reasons()}), more than the share of"
            f" {self._largest_share:g} that is allowed. The first: {places}.",
            bad / lines,
        )

    def check_all_bad(self, read: int) -> None:
        """Fail before all is read, where no line is good so far and the rest cannot make up for it.

        Args:
            read: Bytes of the task, as stored, that gave no more than the lines so far.
        """
        bad = self.counts.total()
        if bad < _ALL_BAD or not read:
            return
        # If the rest has as many lines for its bytes, so many of all of them may be bad.
        if bad <= self._largest_share * bad * self._task_size / read:
            return
        raise self._error(
            f"none of the first {bad:,} lines can be used ({self._reasons()}), and a share of"
            f" {self._largest_share:g} is allowed, so the rest was not read. The first begins with"
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
            "Mend them, check text_field and domain_field of the source, or raise"
            " data.preparation.largest_bad_share.",
            f"{share:.2g}",
            line=first.line,
        )
