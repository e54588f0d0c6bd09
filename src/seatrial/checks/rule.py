# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The input of a rule and its result."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from seatrial.catalog.catalog import Catalog
from seatrial.catalog.models import ModelPreset
from seatrial.checks.cluster.facts import ClusterFacts
from seatrial.checks.probe_facts import CheckpointProbe, DataProbe
from seatrial.findings import Finding, Severity
from seatrial.planning.plan import Plan
from seatrial.planning.planner import PlannedRun
from seatrial.spec.cluster import Operator
from seatrial.spec.loader import LoadedSpec
from seatrial.spec.run import RunSpec


class RepairKind(StrEnum):
    """What a repair does to the run that the spec describes."""

    SAME_RUN = "same-run"
    """The repair changes only the spelling (a key, a unit, quotes). `--fix` writes it."""
    OTHER_RUN = "other-run"
    """The repair changes the model, data, initial state, speed or machines. It is only proposed."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A change to the spec that removes a finding."""

    kind: RepairKind
    """The kind according to the rule. The guard before `--fix` writes does not rely on it."""
    overrides: tuple[str, ...]
    """The changes as `key=value` pairs, applied together."""

    @property
    def is_written(self) -> bool:
        """True if `--fix` may write it."""
        return self.kind is RepairKind.SAME_RUN


def proposed(*overrides: str) -> Repair | None:
    """Return a change to the run for the user to decide on; `None` if there are no overrides."""
    return Repair(RepairKind.OTHER_RUN, overrides) if overrides else None


def respelt(*overrides: str) -> Repair:
    """Return a repair that changes only the spelling."""
    return Repair(RepairKind.SAME_RUN, overrides)


class Scope(StrEnum):
    """The input that a rule needs."""

    STATIC = "static"
    """Only the spec and the plan."""
    DATA = "data"
    """Prepared data, corpora and tokenizers."""
    ENGINE = "engine"
    """The engine installed on this host."""
    RESUME = "resume"
    """Checkpoints that the run would resume from."""
    CLUSTER = "cluster"
    """The cluster."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A finding of the check, with the change to the spec that fixes it, if there is one."""

    finding: Finding
    repair: Repair | None = None
    """The change that the rule proposes; `None` if it proposes none."""


@dataclass(frozen=True, slots=True)
class Situation:
    """The input of the rules: the spec, the plan, and what the probes read."""

    loaded: LoadedSpec
    """The spec, with line numbers."""
    run: PlannedRun
    """The plan and the planner's estimates."""
    catalog: Catalog
    data: DataProbe | None = None
    """Reads data, corpora and tokenizers; `None` if they are not checked."""
    checkpoints: CheckpointProbe | None = None
    """Reads checkpoints; `None` if they are not checked."""
    cluster: ClusterFacts | None = None
    """Facts about the cluster; `None` if it is not checked."""

    @property
    def spec(self) -> RunSpec:
        return self.loaded.spec

    @property
    def plan(self) -> Plan:
        """The resolved plan."""
        return self.run.plan

    @property
    def published_model(self) -> ModelPreset | None:
        """The run's preset, or its model by a config.json; None for custom dimensions."""
        named = self.run.basis.preset
        return named[1] if named else None

    @property
    def in_pods(self) -> bool:
        """True if the run is on Kubernetes, not on this host."""
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
        """Return an error about a field, with the change that removes it."""
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
        """Return a warning about a field, with the change that removes it."""
        return self._made(Severity.WARNING, code, field_name, rule, fix, value, repair)

    def note(self, code: str, field_name: str, rule: str, fix: str, value: object = "") -> Checked:
        """Return a note about a field."""
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
    """The codes that it reports."""
    scope: Scope
    """The input that it needs."""
    look: Callable[[Situation], Iterable[Checked]] = field(repr=False)
    """Yields the findings."""


def static(*codes: str, look: Callable[[Situation], Iterable[Checked]]) -> Rule:
    """Return a rule about the spec and the plan."""
    return Rule(codes, Scope.STATIC, look)


def of_data(*codes: str, look: Callable[[Situation], Iterable[Checked]]) -> Rule:
    """Return a rule about data, corpora and tokenizers."""
    return Rule(codes, Scope.DATA, look)


def of_checkpoints(*codes: str, look: Callable[[Situation], Iterable[Checked]]) -> Rule:
    """Return a rule about checkpoints that the run would resume from."""
    return Rule(codes, Scope.RESUME, look)


def of_cluster(*codes: str, look: Callable[[Situation], Iterable[Checked]]) -> Rule:
    """Return a rule about the cluster."""
    return Rule(codes, Scope.CLUSTER, look)
