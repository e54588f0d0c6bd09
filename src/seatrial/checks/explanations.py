# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Explain the code of a finding: the reason for its rule, the consequences, and the sources."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from seatrial.codes.registry import known_codes
from seatrial.errors import UsageError
from seatrial.naming import nearest

FILES = ("explanations.toml", "cluster_explanations.toml", "spec_explanations.toml")
"""The files with explanations: rules of the check, rules about clusters and checkpoints, and
findings from reading, planning and rendering a spec."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a code."""

    why: str
    """What happens if the finding is ignored, and when."""
    do: str
    """How to fix the problem, if the finding itself does not state everything."""
    sources: tuple[str, ...]
    """Each source is a thread, a document or a file at a commit."""


@cache
def explanations() -> dict[str, Explanation]:
    """Return the explanations by code."""
    folder = files("seatrial.checks").joinpath("data")
    return {
        code: Explanation(facts["why"], facts.get("do", ""), tuple(facts["sources"]))
        for name in FILES
        for code, facts in tomllib.loads(folder.joinpath(name).read_text("utf-8")).items()
    }


_SHORT = re.compile(r"(?:ST-)?([A-Z]+)-?(\d{1,3})", re.IGNORECASE)
"""A code as people type it from memory."""


@dataclass(frozen=True, slots=True)
class ExplainedCode:
    """The meaning of a finding's code."""

    code: str
    meaning: str
    part: str
    """The part of Seatrial that reports it."""
    why: str = ""
    """The consequences. Empty if there is no explanation beyond the meaning."""
    do: str = ""
    """The fix."""
    sources: tuple[str, ...] = ()


def explain(code: str) -> ExplainedCode:
    """Explain a finding: its meaning, its consequences, the fix, and the sources.

    `code` may be short: `batch-2` means ST-BATCH-002.
    """
    wanted, known = _whole(code), known_codes()
    if wanted not in known:
        match = nearest(wanted, known)
        hint = f"Did you mean {match}?" if match else "All codes: docs/reference/findings.md."
        raise UsageError(f"unknown code {code}. {hint}")
    found, explanation = known[wanted], explanations().get(wanted)
    if explanation is None:
        return ExplainedCode(found.code, found.meaning, found.part)
    sources = tuple(explanation.sources)
    return ExplainedCode(
        found.code, found.meaning, found.part, explanation.why, explanation.do, sources
    )


def _whole(code: str) -> str:
    """Complete a short code: `render-11` becomes ST-RENDER-011."""
    match = _SHORT.fullmatch(code.strip())
    return f"ST-{match[1].upper()}-{int(match[2]):03}" if match else code.strip().upper()
