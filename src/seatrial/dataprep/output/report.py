# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Collect the results of checks of a prepared file: one finding per kind."""

from seatrial.codes.datasets import DatasetCode
from seatrial.findings import Finding, Severity, Where

FIX = "Restore the file from the original, or prepare the data again."


class VerificationReport:
    """Findings about one file: the first of each kind, and the number of the others."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._first: dict[DatasetCode, tuple[str, str, str, Severity]] = {}
        self._number: dict[DatasetCode, int] = {}

    def add(
        self,
        code: DatasetCode,
        rule: str,
        value: object = "",
        *,
        number: int = 1,
        fix: str = FIX,
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Report a problem in `number` locations, of which this is the first."""
        self._first.setdefault(code, (rule, str(value), fix, severity))
        self._number[code] = self._number.get(code, 0) + number

    def findings(self) -> list[Finding]:
        found = []
        for code, (rule, value, fix, severity) in self._first.items():
            others = self._number[code] - 1
            more = f" There are {others} more such locations." if others else ""
            found.append(Finding(code, severity, Where(file=self.file), rule + more, value, fix))
        return found
