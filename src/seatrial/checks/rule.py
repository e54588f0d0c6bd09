# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a rule looks at, and what it answers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from seatrial.catalog.catalog import Catalog
from seatrial.checks.cluster.facts import ClusterFacts
from seatrial.checks.probe_facts import CheckpointProbe, DataProbe
from seatrial.findings import Finding, Severity
from seatrial.planning.plan import Plan
from seatrial.planning.planner import PlannedRun
from seatrial.spec.cluster import Operator
from seatrial.spec.loader import LoadedSpec
from seatrial.spec.run import RunSpec


class RepairKind(StrEnum):
    """What a repair does to the run that its owner described."""

    SAME_RUN = "same-run"
    """It spells the same run differently: a key, a unit, quotes. `--fix` writes it."""
    OTHER_RUN = "other-run"
    """It changes what is trained, on what, from what, how fast or where. It is only proposed."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A change of the spec that removes a finding."""

    kind: RepairKind
    """What it claims to be; the guard before the file is written does not rely on it."""
    overrides: tuple[str, ...]
    """The change as `key=value`, applied together."""

    @property
    def is_written(self) -> bool:
        """True if `--fix` may write it."""
        return self.kind is RepairKind.SAME_RUN


def proposed(*overrides: str) -> Repair | None:
    """A change of the run, for its owner to decide; `None` without overrides."""
    return Repair(RepairKind.OTHER_RUN, overrides) if overrides else None


def respelt(*overrides: str) -> Repair:
    """The same run in another spelling."""
    return Repair(RepairKind.SAME_RUN, overrides)


class Scope(StrEnum):
    """What a rule needs to look at."""

    STATIC = "static"
    """The spec and the plan alone."""
    DATA = "data"
    """Prepared data, corpora and tokenizers."""
    ENGINE = "engine"
    """The engine itself, on this host."""
    RESUME = "resume"
    """Checkpoints that the run would go on from."""
    CLUSTER = "cluster"
    """The cluster."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A finding of the check, with the change that mends it where that is a change of the spec."""

    finding: Finding
    repair: Repair | None = None
    """The change that the rule itself names; `None` if it names none."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A run as the rules see it: the spec resolved, and what lies around it."""

    loaded: LoadedSpec
    """The spec with its places."""
    run: PlannedRun
    """The plan, with what the planner thinks of it."""
    catalog: Catalog
    data: DataProbe | None = None
    """Data, corpora and tokenizers; nothing where they are not looked at."""
    checkpoints: CheckpointProbe | None = None
    """Checkpoints; nothing where they are not looked at."""
    cluster: ClusterFacts | None = None
    """The cluster; nothing where it is not looked at."""

    @property
    def spec(self) -> RunSpec:
        return self.loaded.spec

    @property
    def plan(self) -> Plan:
        """What it resolves to."""
        return self.run.plan

    @property
    def in_pods(self) -> bool:
        """Whether the run is on Kubernetes, and not on this host."""
        return self.plan.machines.operator is not Operator.TORCHRUN

    def error(
        self,
        code: str,
        field_name: str,
        rule: str,
        fix: str,
        value: object = "",
        repair: Repair | None = None,
    ) -> Checked:
        """An error about a field, with the change that removes it."""
        return self._made(Severity.ERROR, code, field_name, rule, fix, value, repair)

    def warning(
        self,
        code: str,
        field_name: str,
        rule: str,
        fix: str,
        value: object = "",
        repair: Repair | None = None,
    ) -> Checked:
        """A warning about a field, with the change that removes it."""
        return self._made(Severity.WARNING, code, field_name, rule, fix, value, repair)

    def note(self, code: str, field_name: str, rule: str, fix: str, value: object = "") -> Checked:
        """A note about a field."""
        return self._made(Severity.NOTE, code, field_name, rule, fix, value, None)

    def _made(
        self,
        severity: Severity,
        code: str,
        field_name: str,
        rule: str,
        fix: str,
        value: object,
        repair: Repair | None,
    ) -> Checked:
        where = self.loaded.where(field_name)
        return Checked(Finding(code, severity, where, rule, str(value), fix), repair)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the check."""

    codes: tuple[str, ...]
    """The codes that it reports under."""
    scope: Scope
    """What it looks at."""
    look: Callable[[Situation], Iterable[Checked]] = field(repr=False)
    """The rule itself."""


def static(*codes: str, look: Callable[[Situation], Iterable[Checked]]) -> Rule:
    """A rule about the spec and the plan."""
    return Rule(codes, Scope.STATIC, look)


def of_data(*codes: str, look: Callable[[Situation], Iterable[Checked]]) -> Rule:
    """A rule about data, corpora and tokenizers."""
    return Rule(codes, Scope.DATA, look)


def of_checkpoints(*codes: str, look: Callable[[Situation], Iterable[Checked]]) -> Rule:
    """A rule about checkpoints that the run would go on from."""
    return Rule(codes, Scope.RESUME, look)


def of_cluster(*codes: str, look: Callable[[Situation], Iterable[Checked]]) -> Rule:
    """A rule about the cluster."""
    return Rule(codes, Scope.CLUSTER, look)
