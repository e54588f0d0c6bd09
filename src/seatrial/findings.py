# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Findings, with which specs, plans, checks and anomaly detectors report problems."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum

from seatrial.secrets.redaction import redact, redact_tree


class Severity(StrEnum):
    """How serious a finding is for the run."""

    ERROR = "error"
    """The run would fail, or would not do what the spec specifies."""
    WARNING = "warning"
    """The run would work, but at a cost or a risk."""
    NOTE = "note"
    """Information; no action is needed."""


@dataclass(frozen=True, slots=True)
class Where:
    """The location of a finding: a position in a file, a spec field, or both."""

    field: str = ""
    """Dotted path of the spec field, such as `training.global_batch_size`."""
    file: str = ""
    """The file name as the user wrote it."""
    line: int = 0
    """Line in the file, counted from 1; 0 if unknown."""
    column: int = 0
    """Column in the line, counted from 1; 0 if unknown."""

    def __str__(self) -> str:
        """Format as `run.yaml:14:3 training.global_batch_size`, without unknown parts."""
        spot = self.file
        if self.line:
            spot += f":{self.line}"
            if self.column:
                spot += f":{self.column}"
        return redact(" ".join(part for part in (spot, self.field) if part))


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding is a problem or a note, with its fix."""

    code: str
    """Stable identifier, such as `ST-BATCH-002`."""
    severity: Severity
    """How serious the finding is for the run."""
    where: Where
    """The location in a file or a spec."""
    rule: str
    """What is wrong, as a sentence that states the rule."""
    value: str
    """The invalid value as the user wrote it; empty if a value is missing."""
    fix: str
    """The fix, as an instruction."""

    def __post_init__(self) -> None:
        """Redact secrets, because findings are printed, written and sent."""
        for name in ("rule", "value", "fix"):
            text = getattr(self, name)
            plain = redact(text) if isinstance(text, str) else text
            if plain is not text:
                object.__setattr__(self, name, plain)

    def one_line(self) -> str:
        """Format the finding on one line: where, rule, fix."""
        place = str(self.where)
        return f"{place}: {self.rule} {self.fix}" if place else f"{self.rule} {self.fix}"

    def to_dict(self) -> dict[str, object]:
        """Return the finding as plain data, for `--json`."""
        plain: dict[str, object] = redact_tree(asdict(self))
        return plain


def has_errors(findings: Iterable[Finding]) -> bool:
    """True if any finding has severity `error`."""
    return any(finding.severity is Severity.ERROR for finding in findings)
