# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Finds a change to the spec that removes a finding: proposes changes by code, and tries each.

A proposal is accepted only if a second check with the change no longer reports the finding and
reports no new errors.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from ruamel.yaml.error import YAMLError

from seatrial.catalog.catalog import Catalog
from seatrial.checks.check import Planner, Verdict, check
from seatrial.checks.cluster.facts import ClusterFacts
from seatrial.checks.probe_facts import CheckpointProbe, DataProbe
from seatrial.checks.repairs.consequences import consequences
from seatrial.checks.repairs.proposals import path_of, proposals
from seatrial.checks.repairs.same_run import Difference, differences
from seatrial.checks.repairs.yaml_edits import applied
from seatrial.checks.rule import Checked, Repair
from seatrial.codes.checks import CheckCode
from seatrial.codes.cluster_checks import SiteCode
from seatrial.codes.planning import PlanCode
from seatrial.codes.resume import ResumeCode
from seatrial.errors import SeatrialError
from seatrial.findings import Finding, Severity, has_errors
from seatrial.spec.overrides import apply
from seatrial.spec.tree import parse

OUTSIDE = frozenset({*map(str, SiteCode), *map(str, ResumeCode), str(CheckCode.LOCAL_SERVER)})
"""Codes for which only the rule's own proposal is offered. A different change may remove the
finding only because the check cannot read what the changed spec refers to."""
MOST_TRIED = 24
"""The maximum number of proposals to try for one finding; each needs a plan."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A run with findings, with everything needed to check it again."""

    text: str
    file: str
    """The file name to show in findings."""
    catalog: Catalog
    overrides: tuple[str, ...] = ()
    """Fields that the command overrides."""
    data: DataProbe | None = None
    """Reads data."""
    planner: Planner | None = None
    """Creates the plan."""
    checkpoints: CheckpointProbe | None = None
    """Reads checkpoints."""
    cluster: ClusterFacts | None = None
    """Facts about the cluster."""

    def again(self, more: tuple[str, ...] = ()) -> Verdict:
        """Check the run again, with more overrides."""
        given = (*self.overrides, *more)
        return check(
            self.text,
            self.file,
            self.catalog,
            given,
            data=self.data,
            checkpoints=self.checkpoints,
            cluster=self.cluster,
            planner=self.planner,
        )

    def with_text(self, text: str) -> "Broken":
        """Return the same run with a different spec text."""
        return replace(self, text=text)

    def plain(self) -> dict[str, Any]:
        """Return the spec with its overrides as plain data; empty if it cannot be read."""
        try:
            root, _ = parse(self.text, self.file)
            if isinstance(root.value, dict):
                apply(root, self.overrides)
        except SeatrialError:
            return {}
        value = root.plain()
        return value if isinstance(value, dict) else {}


def repair_of(broken: Broken, found: Checked) -> Repair | None:
    """Return the first proposed change that removes a finding; `None` if none does."""
    before = broken.again()
    planned: Repair | None = None
    first: Repair | None = None
    for repair in islice(_proposed(broken, before, found), MOST_TRIED):
        after = broken.again(repair.overrides)
        if mends(before, after, found.finding):
            # Without a plan, most rules have not run. Their findings after a change count too: a
            # change that leaves errors is used only if no other change is better.
            safe = repair.is_written
            if safe or before.situation is not None or not has_errors(after.findings):
                return repair
            first = first or repair
            planned = planned or (repair if after.situation is not None else None)
    return planned or first


def respelling_of(broken: Broken, before: Verdict, found: Checked) -> Repair | None:
    """Return the respelling that removes a finding; `None` if there is none."""
    for repair in _proposed(broken, before, found):
        if repair.is_written and mends(before, broken.again(repair.overrides), found.finding):
            return repair
    return None


def effects_of(broken: Broken, repair: Repair) -> list[str]:
    """Describe what a change does to the run; empty if the run stays the same."""
    try:
        before = applied(broken.text, broken.overrides) if broken.overrides else broken.text
        changed = differences(before, applied(before, repair.overrides))
    except (SeatrialError, YAMLError, TypeError, KeyError, IndexError):
        # The text cannot be edited; the overrides themselves state the changes.
        pairs = [override.partition("=") for override in repair.overrides]
        changed = [Difference(path_of(key), None, value) for key, _, value in pairs]
    return consequences(changed, broken.plain(), broken.catalog)


def _proposed(broken: Broken, before: Verdict, found: Checked) -> Iterator[Repair]:
    """Yield the rule's own proposal, then the proposals for the finding's code."""
    if found.repair is not None:
        yield found.repair
    if found.finding.code in OUTSIDE:
        return
    # Warnings are for the user to decide: offer only the rule's own proposal, unless the layout
    # would not fit.
    memory = found.finding.code in (PlanCode.RISKY, PlanCode.STATE)
    mild = found.finding.code in (PlanCode.POSITIONS, PlanCode.ACROSS_NODES)
    if found.finding.severity is not Severity.ERROR and not (memory or mild):
        return
    yield from proposals(found.finding, broken.plain(), before.situation, broken.catalog)


def mends(before: Verdict, after: Verdict, finding: Finding) -> bool:
    """True if a finding is gone and there are no new errors.

    An error from a rule that did not run before, because there was no plan, is not new.
    """
    key = _key(finding)
    fewer = sum(_key(f) == key for f in after.findings) < sum(
        _key(f) == key for f in before.findings
    )
    return fewer and not _errors(after, before.applied) - _errors(before, before.applied)


def _key(finding: Finding) -> tuple[str, str]:
    return finding.code, finding.where.field


def _errors(verdict: Verdict, codes: frozenset[str]) -> set[tuple[str, str]]:
    errors = (f for f in verdict.findings if f.severity is Severity.ERROR)
    return {_key(finding) for finding in errors if finding.code in codes}
