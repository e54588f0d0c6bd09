# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Asking the rules of layouts for a verdict alone, thousands of times."""

from collections.abc import Callable
from dataclasses import dataclass, field

from seatrial.findings import Finding, Severity, Where
from seatrial.planning.codes import PlanCode
from seatrial.planning.layout_rules import Reporter


@dataclass(slots=True)
class Probe:
    """Stands in for a report: remembers what broke a rule, and passes over warnings."""

    findings: list[Finding] = field(default_factory=list)
    """The rules that were broken."""

    def error(self, code: PlanCode, field_name: str, rule: str, value: object, fix: str) -> None:
        """Remember a broken rule."""
        where = Where(field=field_name)
        self.findings.append(Finding(code, Severity.ERROR, where, rule, str(value), fix))

    def warning(self, code: PlanCode, field_name: str, rule: str, value: object, fix: str) -> None:
        """Pass over what works at a cost: the price of the layout says it."""


def holds(rule: Callable[[Reporter], object]) -> bool:
    """Whether a rule of `layout_rules` is kept."""
    probe = Probe()
    rule(probe)
    return not probe.findings
