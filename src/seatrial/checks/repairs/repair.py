# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""From a finding to a change of the spec that mends it: proposed by its code, then tried.

A proposal counts only when the run, checked again with it, no longer has the finding and has no
error that it did not have before.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from seatrial.catalog.catalog import Catalog
from seatrial.checks.check import Planner, Verdict, check
from seatrial.checks.codes import CheckCode
from seatrial.checks.data_facts import DataProbe
from seatrial.checks.repairs.proposals import proposals
from seatrial.checks.saved.codes import ResumeCode
from seatrial.checks.saved.facts import CheckpointProbe
from seatrial.checks.site.codes import SiteCode
from seatrial.checks.site.facts import ClusterFacts
from seatrial.checks.situation import Checked
from seatrial.dataprep.output.codes import DatasetCode
from seatrial.errors import SeatrialError
from seatrial.findings import Finding, Severity, has_errors
from seatrial.planning.codes import PlanCode
from seatrial.spec.codes import SpecCode
from seatrial.spec.overrides import apply
from seatrial.spec.tree import parse

OUTSIDE = frozenset({*map(str, SiteCode), *map(str, ResumeCode), str(CheckCode.LOCAL_SERVER)})
"""Codes of which only the change that the rule itself proposes is offered: what else makes the
finding go away may only lead to where nobody has looked."""
WEIGHED = frozenset(
    map(
        str,
        (
            *(SiteCode.SMALL_QUEUE, SiteCode.UNCOVERED, SiteCode.FEW_NODES, SiteCode.UNFIT_NODES),
            *(SiteCode.NO_DEVICES, SiteCode.NO_FABRIC, SiteCode.FAR_APART, SiteCode.QUOTA),
            *(PlanCode.NODE_TYPE, PlanCode.WORLD, DatasetCode.EPOCHS, DatasetCode.ABSENT),
            *(CheckCode.DATA_PLACE, CheckCode.TOKENIZER_PLACE, CheckCode.NO_WANDB_KEY),
            CheckCode.NO_HUB_TOKEN,
        ),
    )
)
"""Codes whose change is offered and not written, for a person to weigh: it makes the run smaller,
slower or dearer, takes other machines or other data, or names a place that nobody has seen."""
LENGTHS = ("training.steps", "training.samples", "training.tokens")
"""Fields of which one says how long the run is: where two do, only its owner knows which."""
MOST_TRIED = 24
"""Proposals that are tried for one finding; each is a plan of its own."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A run with something wrong, as it can be checked again."""

    text: str
    """The spec."""
    file: str
    """The name that findings give it."""
    catalog: Catalog
    """The facts."""
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


def is_weighed(finding: Finding) -> bool:
    """Whether a change for a finding is shown and left to a person, who has to weigh it."""
    lengths = finding.code == SpecCode.CONTRADICTION and finding.where.field in LENGTHS
    return lengths or finding.code in WEIGHED


def repair_of(broken: Broken, found: Checked) -> tuple[str, ...]:
    """The first change that mends a finding; empty where none of those proposed does."""
    before = broken.again()
    planned: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    for proposal in islice(_proposed(broken, before, found), MOST_TRIED):
        after = broken.again(proposal)
        if mends(before, after, found.finding):
            # Without a plan most rules have not spoken: what they would say of a change counts too,
            # and one that leaves errors is taken only where no other is better.
            if before.situation is not None or not has_errors(after.findings):
                return proposal
            first = first or proposal
            planned = planned or (proposal if after.situation is not None else ())
    return planned or first


def _proposed(broken: Broken, before: Verdict, found: Checked) -> Iterator[tuple[str, ...]]:
    """What the rule itself proposes, then what is proposed for its code."""
    if found.overrides:
        yield found.overrides
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
