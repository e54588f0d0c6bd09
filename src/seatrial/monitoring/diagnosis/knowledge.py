# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What is known of failures, read from data: causes, signatures of them, and mere symptoms."""

import re
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any

UNKNOWN = "unknown"
"""The cause where nothing that is known explains the evidence."""
_NEAR = 30
_ANYTHING = re.compile(r"(?<!\\)\.\*")
_A_STRETCH = ".{0,150}"
"""What `.*` of a pattern stands for: without a bound, a long line would take minutes."""


class Certainty(StrEnum):
    """How much a line proves."""

    CERTAIN = "certain"
    """The line names the cause itself."""
    LIKELY = "likely"
    """It has this cause in most cases that are known."""
    POSSIBLE = "possible"
    """It often has this cause, and others as well."""

    @property
    def order(self) -> int:
        """0 for the most certain."""
        return list(Certainty).index(self)


@dataclass(frozen=True, slots=True)
class Cause:
    """What a failure is put down to."""

    key: str
    says: str
    """The sentence that defines it."""
    do: str
    """What to do next."""
    slows: bool = False
    """Whether the run goes on with it."""
    explained_by: tuple[str, ...] = ()
    """Causes that make this one a consequence."""
    yields: bool = False
    """Whether any other cause explains this one."""
    before_start: bool = False
    """Whether a run that failed later by something else had got over it."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A line that tells of a cause, or of a mere symptom."""

    name: str
    """Its own name, unique."""
    cause: str
    """The key of the cause; empty for a symptom."""
    certainty: Certainty
    """How much the line proves."""
    pattern: re.Pattern[str]
    """What the line holds."""
    source: str
    """Where such lines are discussed or documented."""
    example: str
    """Lines of that kind, the first that matches proves it."""
    says: str = ""
    """What it tells, with the pattern's groups by name; the cause's sentence when empty."""
    details: tuple[re.Pattern[str], ...] = ()
    """More groups, each looked for in the same line."""
    unless: re.Pattern[str] | None = None
    """A line that holds this is meant otherwise."""
    near: re.Pattern[str] | None = None
    """What must stand in the lines around it."""
    unless_near: re.Pattern[str] | None = None
    """What must not stand in the lines around it."""
    within: int = _NEAR
    """How many lines before and after count as around."""
    persists: bool = False
    """Whether steps that follow do not show that the run got over it."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """All that is known."""

    causes: dict[str, Cause]
    """The causes by key."""
    signatures: tuple[Signature, ...]
    """The signatures of causes."""
    symptoms: tuple[Signature, ...]
    """What is only ever a consequence."""


@cache
def knowledge() -> Knowledge:
    """What is known, read once."""
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
