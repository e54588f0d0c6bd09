# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Computes the text that `check --fix` writes, once for both the diff and the file.

`--fix` applies only respellings, and only if the whole text still describes the same run
(`same_run.py`), regardless of the kind that a repair states.
"""

import difflib
from dataclasses import dataclass

from ruamel.yaml.error import YAMLError

from seatrial.checks.check import Verdict
from seatrial.checks.repairs.repair import Broken, mends, respelling_of
from seatrial.checks.repairs.same_run import differences
from seatrial.checks.repairs.yaml_edits import applied
from seatrial.checks.rule import Checked, Repair
from seatrial.errors import SeatrialError
from seatrial.findings import Finding
from seatrial.secrets.redaction import redact

MOST_ROUNDS = 60
"""The maximum number of changes in one call: each change can reveal a new finding."""


@dataclass(frozen=True, slots=True)
class Change:
    """One respelling in the file."""

    found: Checked
    """The finding that it removes."""
    repair: Repair

    def is_for(self, finding: Finding) -> bool:
        """True if it removes the finding, possibly on a new line after other changes."""
        own = self.found.finding
        return (own.code, own.where.field) == (finding.code, finding.where.field)


@dataclass(frozen=True, slots=True)
class Fix:
    """A spec after every respelling that removes a finding."""

    before: str
    """The current text of the file."""
    broken: Broken
    """The run after the changes; `--fix` writes its text."""
    verdict: Verdict
    """The result of checking it."""
    changes: tuple[Change, ...]
    """The changes, in order."""

    def diff(self, file: str) -> str:
        """Return the changes as a unified diff with secrets redacted; "" if there are none."""
        before = self.before.splitlines(keepends=True)
        after = self.broken.text.splitlines(keepends=True)
        lines = difflib.unified_diff(before, after, file, file, n=1)
        return redact("\n".join(line.rstrip("\r\n") for line in lines))


def plan_fix(broken: Broken, verdict: Verdict) -> Fix:
    """Find every respelling that removes a finding, and try each one in the text."""
    before, changes = broken.text, list[Change]()
    while len(changes) < MOST_ROUNDS:
        step = _next(before, broken, verdict)
        if step is None:
            break
        change, broken, verdict = step
        changes.append(change)
    return Fix(before, broken, verdict, tuple(changes))


def _next(original: str, broken: Broken, verdict: Verdict) -> tuple[Change, Broken, Verdict] | None:
    """Return the next change, with the run and the verdict after it; `None` if there is none."""
    for found in verdict.checked:
        repair = respelling_of(broken, verdict, found)
        if repair is None:
            continue
        try:
            text = applied(broken.text, repair.overrides)
            changed = differences(original, text)
        except (SeatrialError, YAMLError):
            continue
        if text == broken.text or changed:
            continue
        after = broken.with_text(text)
        result = after.again()
        if mends(verdict, result, found.finding):
            return Change(found, repair), after, result
    return None
