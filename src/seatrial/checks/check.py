# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Applies every rule to a run, and reports the findings and which rules ran."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from seatrial.catalog.catalog import Catalog
from seatrial.checks.cluster.facts import ClusterFacts
from seatrial.checks.probe_facts import CheckpointProbe, DataProbe
from seatrial.checks.resume_source import sees_checkpoints
from seatrial.checks.rule import Checked, Rule, Scope, Situation
from seatrial.checks.rules import (
    blend,
    engine,
    environment_variables,
    images,
    not_inspected,
    paths,
    pod_environment,
    prepared_data,
    resume,
    schedule,
    secrets,
    sources,
    splits,
    tokenizers,
)
from seatrial.checks.rules.cluster import (
    components,
    namespaces,
    nodes,
    operators,
    queues,
    rights,
    volumes,
)
from seatrial.checks.rules.host import host_plan_findings
from seatrial.checks.rules.not_inspected import blind_codes
from seatrial.codes.checks import CheckCode
from seatrial.codes.engines import EngineCode
from seatrial.codes.planning import PlanCode
from seatrial.codes.rendering import RenderCode
from seatrial.codes.spec import SpecCode
from seatrial.engines.registry import option_findings, plan_findings
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, has_errors
from seatrial.planning.planner import PlannedRun, plan_run
from seatrial.planning.plausibility import excessive
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.run_budget import budget_of
from seatrial.planning.search.verdicts import far_batch, lost_time, verdicts
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.context import scene_of
from seatrial.rendering.render import Part, render
from seatrial.rendering.rules import class_findings, data_findings
from seatrial.spec.loader import LoadedSpec, loads
from seatrial.spec.placeholders import placeholders

RULES: tuple[Rule, ...] = (
    *schedule.RULES,
    *paths.RULES,
    *environment_variables.RULES,
    *images.RULES,
    *secrets.RULES,
    *engine.RULES,
    *tokenizers.RULES,
    *prepared_data.RULES,
    *splits.RULES,
    *blend.RULES,
    *pod_environment.RULES,
    *sources.RULES,
    *not_inspected.RULES,
    *resume.RULES,
    *operators.RULES,
    *components.RULES,
    *queues.RULES,
    *nodes.RULES,
    *volumes.RULES,
    *namespaces.RULES,
    *rights.RULES,
)
"""All rules, in the order in which they run."""

BEFORE: dict[str, tuple[type[StrEnum], ...]] = {
    "spec": (SpecCode,),
    "plan": (PlanCode, EngineCode),
    "manifests": (RenderCode,),
}
"""The codes that are checked before the rules, while a spec is read, planned and rendered."""


def codes_of(scope: Scope) -> tuple[str, ...]:
    """Return the codes in one scope, without duplicates."""
    return tuple(
        dict.fromkeys(code for rule in RULES if rule.scope is scope for code in rule.codes)
    )


def codes_before(part: str) -> tuple[str, ...]:
    """Return the codes for a part that is checked before the rules."""
    return tuple(str(code) for enum in BEFORE[part] for code in enum)


Planner = Callable[[LoadedSpec], PlannedRun]
"""Plans a run. The default is the planner; commands use the stored plan."""
NO_DATA = "data not checked: --data"
UNSEEN = "inputs not readable from this host"
NO_CHECKPOINT = "no checkpoint on this host"
NO_CLUSTER = "cluster not checked: --cluster"
NO_ANSWER = "cluster not reachable"
NO_ENGINE = "engine not checked: --engine"
NO_MANIFESTS = "no manifests for this run"
UNREADABLE = "the spec has errors"
NO_PLAN = "no plan"
_WEIGHT = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check."""

    checked: tuple[Checked, ...]
    """The findings, errors first."""
    applied: frozenset[str]
    """The codes of the rules that ran."""
    not_run: dict[str, int]
    """The number of rules that did not run, by reason."""
    situation: Situation | None = None
    """The input of the rules; `None` if there is no plan."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings, without repairs."""
        return tuple(found.finding for found in self.checked)

    def without(self, reason: str, rules: int) -> "Verdict":
        """Return a copy that counts more rules as not run, for a different reason."""
        return replace(self, not_run=self.not_run | {reason: rules})

    def unanswered(self, reason: str = NO_CLUSTER, instead: str = NO_ANSWER) -> "Verdict":
        """Return a copy with one reason replaced, for example if the cluster is unreachable."""
        reasons = {instead if why == reason else why: n for why, n in self.not_run.items()}
        return replace(self, not_run=reasons)

    def adding(self, more: Iterable[Checked]) -> "Verdict":
        """Return a copy with the findings from one more rule."""
        applied = self.applied | {CheckCode.REFUSED}
        return replace(self, checked=(*self.checked, *more), applied=applied)

    @property
    def rules_run(self) -> int:
        """The number of rules that ran."""
        return len(self.applied)

    @property
    def clean(self) -> bool:
        """True if there are no errors and no warnings."""
        return all(finding.severity is Severity.NOTE for finding in self.findings)


def check(
    text: str,
    file: str,
    catalog: Catalog,
    overrides: Sequence[str] = (),
    *,
    data: DataProbe | None = None,
    checkpoints: CheckpointProbe | None = None,
    cluster: ClusterFacts | None = None,
    planner: Planner | None = None,
) -> Verdict:
    """Apply every rule to the text of a spec.

    Args:
        text: The text of the spec.
        file: The file name to show in findings.
        catalog: The catalog.
        overrides: Fields to override.
        data: Reads data; `None` to skip rules about data.
        checkpoints: Reads checkpoints; `None` to skip rules about checkpoints.
        cluster: Facts about the cluster; `None` to skip rules about the cluster.
        planner: Creates the plan.
    """
    try:
        loaded = loads(text, file, tuple(overrides))
    except FindingsError as error:
        rest = [*codes_before("plan"), *codes_before("manifests"), *_of_rules()]
        return _verdict(error.findings, codes_before("spec"), {UNREADABLE: len(rest)})
    found = [*option_findings(loaded), *placeholders(loaded)]
    try:
        run = (planner or (lambda spec: plan_run(resolve_basis(spec, catalog))))(loaded)
    except FindingsError as error:
        rest = [*codes_before("manifests"), *_of_rules()]
        applied = [*codes_before("spec"), *codes_before("plan")]
        return _verdict([*found, *error.findings], applied, {NO_PLAN: len(rest)})
    found += [*run.plan.findings, *plan_findings(loaded, run.plan)]
    found += [*verdicts(loaded, run), *far_batch(loaded, run)]
    budget = budget_of(run, catalog)
    found += [*lost_time(loaded, run, budget.saves), *excessive(loaded, run, budget)]
    situation = Situation(loaded, run, catalog, data, checkpoints, cluster)
    return _with_rules(situation, found)


def _of_rules() -> list[str]:
    """Return the codes of all rules that need a plan."""
    scopes = (Scope.STATIC, Scope.DATA, Scope.RESUME, Scope.CLUSTER)
    return [code for scope in scopes for code in codes_of(scope)]


def _with_rules(situation: Situation, found: list[Finding]) -> Verdict:
    """Return the verdict for a run that has a plan."""
    applied = [*codes_before("spec"), *codes_before("plan")]
    left_out: dict[str, int] = {}
    rendered = False
    if has_manifests(situation):
        reported = manifest_findings(situation)
        rendered = not has_errors(reported)
        found += reported
        applied += codes_before("manifests")
    else:
        found += launch_refusals(situation)
        left_out[NO_MANIFESTS] = len(codes_before("manifests"))
    # Cluster rules look up the objects in the manifests.
    looked_at = {
        Scope.STATIC: "",
        Scope.DATA: "" if situation.data is not None else NO_DATA,
        Scope.RESUME: "" if sees_checkpoints(situation) else NO_CHECKPOINT,
        Scope.CLUSTER: _why_no_cluster(situation, rendered=rendered),
    }
    checked: list[Checked] = []
    for scope, reason in looked_at.items():
        if reason:
            left_out[reason] = left_out.get(reason, 0) + len(codes_of(scope))
            continue
        blind = blind_codes(situation) if scope is Scope.DATA else frozenset()
        if blind:
            left_out[UNSEEN] = len(blind)
        applied += [code for code in codes_of(scope) if code not in blind]
        checked += [each for rule in RULES if rule.scope is scope for each in rule.look(situation)]
    return _verdict(found, applied, left_out, checked, situation)


def _why_no_cluster(situation: Situation, *, rendered: bool) -> str:
    """Return why the cluster is not checked; "" if it is."""
    if not has_manifests(situation):
        return NO_MANIFESTS
    if situation.cluster is None:
        return NO_CLUSTER
    return "" if rendered else NO_MANIFESTS


def has_manifests(situation: Situation) -> bool:
    """True if the run has Kubernetes manifests."""
    return situation.in_pods


def launch_refusals(situation: Situation) -> list[Finding]:
    """Return the errors for which `render` and `launch` would reject a planned run."""
    if has_manifests(situation):
        found = manifest_findings(situation)
    else:
        place = situation.loaded.where
        found = host_plan_findings(situation.plan, situation.catalog, place)
    return [each for each in found if each.severity is Severity.ERROR]


def manifest_findings(situation: Situation) -> list[Finding]:
    """Return the findings from rendering the run, its data preparation and its volume."""
    plan, where = situation.plan, situation.loaded.where
    try:
        made = render(plan, situation.catalog, Part.RUN, Attempt(), where)
    except FindingsError as error:
        return list(error.findings)
    scene = scene_of(plan, situation.catalog, Attempt())
    # What the cluster offers for `gang: auto` is a rule of its own: `check --cluster`.
    reported = [each for each in made.findings if each.code != RenderCode.GANG]
    found = [*reported, *data_findings(scene, where)]
    if situation.cluster is not None:
        # The cluster rules check whether an administrator has created these objects.
        return [each for each in found if each.code != RenderCode.WORKER_LOCK]
    return found + [replace(each, severity=Severity.NOTE) for each in class_findings(scene, where)]


def _verdict(
    findings: Iterable[Finding],
    applied: Iterable[str],
    left_out: dict[str, int],
    checked: Iterable[Checked] = (),
    situation: Situation | None = None,
) -> Verdict:
    """Sort the findings: errors first, then in the order of the file."""
    every = [*(Checked(finding) for finding in findings), *checked]
    every.sort(key=lambda found: (_WEIGHT[found.finding.severity], found.finding.where.line))
    return Verdict(tuple(every), frozenset(map(str, applied)), left_out, situation)
