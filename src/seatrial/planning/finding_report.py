# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Collects the findings from one resolution, each with its position in the user's file."""

from dataclasses import dataclass, field
from enum import StrEnum

from seatrial.codes.planning import PlanCode
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, has_errors
from seatrial.spec.loader import LoadedSpec


@dataclass
class FindingReport:
    """Collects findings, so that one pass reports all of them."""

    loaded: LoadedSpec
    """The spec with the positions of its values."""
    findings: list[Finding] = field(default_factory=list)

    def error(self, code: StrEnum, field_name: str, rule: str, value: object, fix: str) -> None:
        """Add an error about a spec field."""
        where = self.loaded.where(field_name)
        self.findings.append(Finding(code, Severity.ERROR, where, rule, str(value), fix))

    def warning(self, code: PlanCode, field_name: str, rule: str, value: object, fix: str) -> None:
        """Add a warning about a spec field."""
        where = self.loaded.where(field_name)
        self.findings.append(Finding(code, Severity.WARNING, where, rule, str(value), fix))

    def note(self, code: StrEnum, field_name: str, rule: str, value: object, fix: str) -> None:
        """Add a note about a spec field."""
        where = self.loaded.where(field_name)
        self.findings.append(Finding(code, Severity.NOTE, where, rule, str(value), fix))

    def stop_if_errors(self) -> None:
        """Raise with all findings if any of them is an error."""
        if has_errors(self.findings):
            places = sorted(self.findings, key=lambda f: (f.where.line, f.where.column))
            raise FindingsError(places)
