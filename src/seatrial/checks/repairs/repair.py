# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""From a finding to a change of the spec that removes it: proposed by its code, then tried.

A proposal counts only when the run, checked again with it, no longer has the finding and has no
error that it did not have before.
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
"""Codes of which only the change that the rule itself proposes is offered: what else makes the
finding go away may only lead to where nobody has looked."""
MOST_TRIED = 24
"""Proposals that are tried for one finding; each is a plan of its own."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A run with something wrong, as it can be checked again."""

    text: str
    file: str
    """The name that findings give it."""
    catalog: Catalog
    overrides: tuple[str, ...] = ()
    """Fields that the command sets differently."""
    data: DataProbe | None = None
    """Who can look at data."""
    planner: Planner | None = None
    """Who makes the plan."""
    checkpoints: CheckpointProbe | None = None
    """Who can look at checkpoints."""
    cluster: ClusterFacts | None = None
    """What the cluster is like."""

    def again(self, more: tuple[str, ...] = ()) -> Verdict:
        """The verdict with more overrides."""
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
        """The same run after its spec was changed."""
        return replace(self, text=text)

    def plain(self) -> dict[str, Any]:
        """The spec with its overrides as plain data; nothing where it cannot be read."""
        try:
            root, _ = parse(self.text, self.file)
            if isinstance(root.value, dict):
                apply(root, self.overrides)
        except SeatrialError:
            return {}
        value = root.plain()
        return value if isinstance(value, dict) else {}


def repair_of(broken: Broken, found: Checked) -> Repair | None:
    """The first change that removes a finding; `None` if none of those proposed does."""
    before = broken.again()
    planned: Repair | None = None
    first: Repair | None = None
    for repair in islice(_proposed(broken, before, found), MOST_TRIED):
        after = broken.again(repair.overrides)
        if mends(before, after, found.finding):
            # Without a plan most rules have not spoken: what they would say of a change counts too,
            # and one that leaves errors is taken only where no other is better.
            safe = repair.is_written
            if safe or before.situation is not None or not has_errors(after.findings):
                return repair
            first = first or repair
            planned = planned or (repair if after.situation is not None else None)
    return planned or first


def respelling_of(broken: Broken, before: Verdict, found: Checked) -> Repair | None:
    """The change that removes a finding and keeps the run as it is; `None` if there is none."""
    for repair in _proposed(broken, before, found):
        if repair.is_written and mends(before, broken.again(repair.overrides), found.finding):
            return repair
    return None


def effects_of(broken: Broken, repair: Repair) -> list[str]:
    """What a change does to the run, in words; empty if it is the same run."""
    try:
        before = applied(broken.text, broken.overrides) if broken.overrides else broken.text
        changed = differences(before, applied(before, repair.overrides))
    except (SeatrialError, YAMLError, TypeError, KeyError, IndexError):
        # The text is no spec to write into; the overrides themselves say what changes.
        pairs = [override.partition("=") for override in repair.overrides]
        changed = [Difference(path_of(key), None, value) for key, _, value in pairs]
    return consequences(changed, broken.plain(), broken.catalog)


def _proposed(broken: Broken, before: Verdict, found: Checked) -> Iterator[Repair]:
    """What the rule itself proposes, then what is proposed for its code."""
    if found.repair is not None:
        yield found.repair
    if found.finding.code in OUTSIDE:
        return
    # A warning is its owner's to weigh: only what the rule itself proposes is offered for it,
    # unless the layout would not fit.
    memory = found.finding.code in (PlanCode.RISKY, PlanCode.STATE)
    mild = found.finding.code in (PlanCode.POSITIONS, PlanCode.ACROSS_NODES)
    if found.finding.severity is not Severity.ERROR and not (memory or mild):
        return
    yield from proposals(found.finding, broken.plain(), before.situation, broken.catalog)


def mends(before: Verdict, after: Verdict, finding: Finding) -> bool:
    """Whether a finding is gone, and no error is new.

    An error of a rule that could not be applied before, for want of a plan, is not new.
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
