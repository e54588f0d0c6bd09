# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The knowledge base of failures, read from data: causes, their signatures, and symptoms."""

import re
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

UNKNOWN = "unknown"
"""The cause if no known cause explains the evidence."""
_NEAR = 30
_ANYTHING = re.compile(r"(?<!\\)\.\*")
_A_STRETCH = ".{0,150}"
"""Replaces `.*` in patterns: unbounded, a long line would take minutes."""


class Certainty(StrEnum):
    """How strongly a line supports a cause."""

    CERTAIN = "certain"
    """The line names the cause itself."""
    LIKELY = "likely"
    """In most known cases, the line has this cause."""
    POSSIBLE = "possible"
    """The line often has this cause, but also others."""

    @property
    def order(self) -> int:
        """0 for the most certain."""
        return list(Certainty).index(self)


@dataclass(frozen=True, slots=True)
class Cause:
    """A cause of failures."""

    key: str
    says: str
    """The sentence that defines it."""
    do: str
    """The fix."""
    slows: bool = False
    """True if the run continues despite it."""
    explained_by: tuple[str, ...] = ()
    """Causes that make this one a consequence."""
    yields: bool = False
    """True if any other cause explains this one."""
    before_start: bool = False
    """True if a run that later failed for a different reason had recovered from it."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A line that indicates a cause, or a symptom."""

    name: str
    """Unique name."""
    cause: str
    """The key of the cause; empty for a symptom."""
    certainty: Certainty
    """How strongly the line supports the cause."""
    pattern: re.Pattern[str]
    """The pattern of the line."""
    source: str
    """Where such lines are documented or discussed."""
    example: str
    """Example lines; the first match counts."""
    says: str = ""
    """Sentence with the pattern's named groups; the cause's sentence if empty."""
    details: tuple[re.Pattern[str], ...] = ()
    """Patterns for more groups, searched in the same line."""
    unless: re.Pattern[str] | None = None
    """A line that matches this does not count."""
    near: re.Pattern[str] | None = None
    """Pattern that the surrounding lines must match."""
    unless_near: re.Pattern[str] | None = None
    """Pattern that the surrounding lines must not match."""
    within: int = _NEAR
    """How many lines before and after count as surrounding."""
    persists: bool = False
    """True if later steps do not show that the run recovered from it."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The whole knowledge base."""

    causes: dict[str, Cause]
    """Causes by key."""
    signatures: tuple[Signature, ...]
    """Signatures of causes."""
    symptoms: tuple[Signature, ...]
    """Signatures that are only ever consequences."""


@cache
def knowledge() -> Knowledge:
    """Load the knowledge base once."""
    data = files("seatrial.monitoring.diagnosis") / "data"
    causes = tomllib.loads((data / "causes.toml").read_text(encoding="utf-8"))
    tables: list[dict[str, Any]] = []
    for file in sorted((data / "signatures").iterdir(), key=lambda entry: entry.name):
        tables += tomllib.loads(file.read_text(encoding="utf-8"))["signature"]
    known = [_signature(table) for table in tables]
    return Knowledge(
        {key: _cause(key, table) for key, table in causes.items()},
        tuple(signature for signature in known if signature.cause),
        tuple(signature for signature in known if not signature.cause),
    )


def _cause(key: str, table: dict[str, Any]) -> Cause:
    return Cause(
        key,
        table["says"],
        table["do"],
        table.get("effect") == "slows",
        tuple(table.get("explained_by", ())),
        table.get("yields", False),
        table.get("before_start", False),
    )


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(_ANYTHING.sub(_A_STRETCH, pattern))


def _signature(table: dict[str, Any]) -> Signature:
    def pattern(name: str) -> re.Pattern[str] | None:
        return _compiled(table[name]) if name in table else None

    return Signature(
        table["name"],
        table.get("cause", ""),
        Certainty(table.get("certainty", Certainty.LIKELY)),
        _compiled(table["pattern"]),
        table["source"],
        table["example"],
        table.get("says", ""),
        tuple(re.compile(text) for text in table.get("details", ())),
        pattern("unless"),
        pattern("near"),
        pattern("unless_near"),
        table.get("within", _NEAR),
        table.get("persists", False),
    )
