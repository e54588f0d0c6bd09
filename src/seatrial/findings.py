# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The finding: the one shape in which specs, plans, checks and anomalies report."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum

from seatrial.secrets.redaction import redact, redact_tree


class Severity(StrEnum):
    """How much a finding matters to the run."""

    ERROR = "error"
    """The run would fail or do something other than what was asked."""
    WARNING = "warning"
    """The run would work, with a cost or a risk that its owner should know."""
    NOTE = "note"
    """Worth knowing; nothing needs doing."""


@dataclass(frozen=True, slots=True)
class Where:
    """The place a finding speaks of: a spot in a file, a field of the spec, or both."""

    field: str = ""
    """Dotted path of the spec field, such as `training.global_batch_size`."""
    file: str = ""
    """The file as the user named it."""
    line: int = 0
    """Line in the file, counted from 1; 0 when there is none."""
    column: int = 0
    """Column in the line, counted from 1; 0 when there is none."""

    def __str__(self) -> str:
        """`run.yaml:14:3 training.global_batch_size`, leaving out what is not known."""
        spot = self.file
        if self.line:
            spot += f":{self.line}"
            if self.column:
                spot += f":{self.column}"
        return redact(" ".join(part for part in (spot, self.field) if part))


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing found wrong or worth knowing, with what to do about it."""

    code: str
    """Stable identifier, such as `ST-BATCH-002`."""
    severity: Severity
    """How much it matters."""
    where: Where
    """The place it speaks of."""
    rule: str
    """What is wrong, as a sentence with the rule in it."""
    value: str
    """The offending value as the user wrote it; empty when something is absent."""
    fix: str
    """What to do, as an instruction."""

    def __post_init__(self) -> None:
        """Redact the texts: findings are printed, written and sent."""
        for name in ("rule", "value", "fix"):
            text = getattr(self, name)
            plain = redact(text) if isinstance(text, str) else text
            if plain is not text:
                object.__setattr__(self, name, plain)

    def one_line(self) -> str:
        """The finding as one line: where, rule, fix."""
        place = str(self.where)
        return f"{place}: {self.rule} {self.fix}" if place else f"{self.rule} {self.fix}"

    def to_dict(self) -> dict[str, object]:
        """The finding as plain data, for `--json`."""
        plain: dict[str, object] = redact_tree(asdict(self))
        return plain


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether any of the findings is of severity `error`."""
    return any(finding.severity is Severity.ERROR for finding in findings)
