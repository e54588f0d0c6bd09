# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Check a run together with its data, checkpoints, engine and cluster."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from seatrial.catalog.catalog import Catalog, default_catalog
from seatrial.checks.check import NO_CLUSTER, NO_DATA, NO_ENGINE, Verdict, has_manifests
from seatrial.checks.cluster.facts import ClusterFacts
from seatrial.checks.probe_facts import CheckpointProbe, DataProbe
from seatrial.checks.probes.checkpoints import CheckpointReader
from seatrial.checks.probes.cluster import gather
from seatrial.checks.probes.engine import asked, require_engine
from seatrial.checks.probes.host import look_at_host
from seatrial.checks.repairs.fix import Fix, plan_fix
from seatrial.checks.repairs.repair import Broken, effects_of, repair_of
from seatrial.checks.resume_source import places_of
from seatrial.checks.rule import Checked, RepairKind, Situation
from seatrial.checks.rules.host import host_findings
from seatrial.checks.rules.sources import absent_here
from seatrial.cluster.api import READY, CallPatience
from seatrial.cluster.errors import ClusterError
from seatrial.errors import FindingsError, MissingExtraError, UsageError
from seatrial.findings import has_errors
from seatrial.planning.planner import PlannedRun
from seatrial.planning.resolve import resolve_basis
from seatrial.rendering.attempt import Attempt, own_digest
from seatrial.rendering.render import Part, render
from seatrial.runs.kept_plan import reuse_or_plan
from seatrial.runs.launch import connect
from seatrial.runs.launch.kubernetes import gang_in
from seatrial.runs.namespace import Site, Tell
from seatrial.runs.objects import taken_names
from seatrial.sdk.data import require_data_extra
from seatrial.sdk.plan import Overrides, PathOrText, override_texts
from seatrial.spec.loader import LoadedSpec, load

_ABSENT = {
    NO_DATA: "data not checked: not installed",
    NO_CLUSTER: "cluster not checked: not installed",
    NO_ENGINE: "engine not checked: not installed",
}
"""The reason for skipped checks whose extra is missing, by the reason if it were not requested."""
BRIEF = CallPatience(outage=8.0, failing=8.0, credentials=4.0, recovery=8.0)
"""How long a check waits for a cluster. It can be short, because you can rerun the check."""
FIRST_ANSWER = 5.0
"""Timeout in seconds of the first request to a server."""


@dataclass(frozen=True, slots=True)
class Looked:
    """The sources that a check reads in addition to the spec."""

    data: bool = False
    """True to read tokenizers, prepared data and corpora."""
    cluster: bool = False
    kubeconfig: str = ""
    """The kubeconfig. Empty for the default."""
    context: str = ""
    """The context. Empty for the current one."""
    tell: Tell | None = None
    """Receives progress messages."""


@dataclass(frozen=True, slots=True)
class Around:
    """The state around a run, from the sources that the check reads."""

    data: DataProbe | None = None
    """Tokenizers, prepared data and corpora."""
    checkpoints: CheckpointProbe | None = None
    cluster: ClusterFacts | None = None
    trouble: ClusterError | None = None
    """The error, if the cluster was requested and did not answer."""


def planner_beside(file: Path, catalog: Catalog) -> Callable[[LoadedSpec], PlannedRun]:
    """Return a planner that uses the calibration and the plan stored next to `file`."""

    def of_spec(loaded: LoadedSpec) -> PlannedRun:
        return reuse_or_plan(resolve_basis(loaded, catalog), file).run

    return of_spec


@dataclass(frozen=True, slots=True)
class Offer:
    """The proposed change for a finding."""

    overrides: tuple[str, ...] = ()
    """Empty if there is no proposal."""
    kind: str = ""
    """The kind of the change; `same-run` if `--fix` writes it."""
    effects: tuple[str, ...] = ()
    """How the change affects the run, one sentence each."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a check: findings, proposals, and sources that could not be read."""

    verdict: Verdict
    offers: tuple[Offer, ...]
    """One per finding, in the order of the verdict."""
    fix: Fix
    """The spelling changes that leave the run the same."""
    is_fixed: bool
    """True if the fix was written."""
    trouble: ClusterError | None = None
    """The error, if the cluster was requested and did not answer."""
    missing: tuple[MissingExtraError, ...] = ()
    """The missing extras that the requested checks need."""

    @property
    def is_incomplete(self) -> bool:
        """True if a requested check could not run."""
        return self.trouble is not None or bool(self.missing)


def check(
    path: PathOrText,
    overrides: Overrides = (),
    *,
    data: bool = False,
    cluster: bool = False,
    kubeconfig: str = "",
    context: str = "",
) -> Verdict:
    """Apply every rule to a run before it uses a GPU. Return findings instead of raising them.

    Args:
        path: The spec.
        overrides: Fields to override.
        data: True to read tokenizers, prepared data and corpora from this host.
        cluster: True to read the cluster. Nothing is changed there.
        kubeconfig: The kubeconfig. Default: KUBECONFIG, else ~/.kube/config.
        context: The kubeconfig context. Default: the current one.
    """
    if data:
        require_data_extra()
    file = Path(path)
    catalog = default_catalog()
    planner = planner_beside(file, catalog)
    texts = override_texts(overrides)
    given = Broken(text_of(file), str(file), catalog, texts, None, planner)
    _, verdict, trouble = _looking(given, Looked(data, cluster, kubeconfig, context))
    if trouble is not None:
        raise trouble
    return replace(verdict, checked=(*_on_this_host(verdict), *verdict.checked))


def check_and_repair(
    file: Path,
    overrides: tuple[str, ...],
    looked: Looked,
    *,
    engine: bool = False,
    write: Callable[[Fix], None] | None = None,
) -> Outcome:
    """Check a run with the requested sources, and propose fixes.

    Args:
        file: The spec.
        overrides: Fields to override.
        looked: The sources to read in addition to the spec.
        engine: True to validate the production arguments with the engine.
        write: Writes the spelling changes that leave the run the same. If None, none is written.
    """
    extras = _Extras()
    looked = replace(
        looked,
        data=looked.data and extras.have(require_data_extra, NO_DATA),
        cluster=looked.cluster and extras.have(connect.require_cluster_extra, NO_CLUSTER),
    )
    text, catalog = text_of(file), default_catalog()
    given = Broken(text, str(file), catalog, overrides, None, planner_beside(file, catalog))
    broken, verdict, trouble = _looking(given, looked)
    # Overrides are not in the file, so `--fix` cannot write changes for them.
    fix = plan_fix(broken, verdict) if not overrides else Fix(text, broken, verdict, ())
    if write is not None:
        write(fix)
        if fix.changes:
            # The API server validated the objects of the old spec. If it did not respond, do not
            # wait for it twice.
            again = replace(looked, cluster=looked.cluster and trouble is None)
            broken, verdict, later = _looking(fix.broken, again)
            trouble = trouble or later
    is_fixed = write is not None
    offers = [_offer(broken, found, fix, is_fixed=is_fixed) for found in verdict.checked]
    if trouble is not None:
        verdict = verdict.unanswered()
    verdict = verdict if looked.data else _with_paths(verdict)
    verdict = extras.told(_with_engine(verdict, extras, wanted=engine))
    offers += [Offer()] * (len(verdict.checked) - len(offers))
    # The engine validates a run for another host too, so it is asked before this.
    here = _on_this_host(verdict)
    verdict = replace(verdict, checked=(*here, *verdict.checked))
    offers = [*[Offer()] * len(here), *offers]
    missing = tuple(extras.missing.values())
    return Outcome(verdict, tuple(offers), fix, is_fixed, trouble, missing)


def _looking(broken: Broken, looked: Looked) -> tuple[Broken, Verdict, ClusterError | None]:
    """Read the requested sources, and check the run with them.

    Also returns the error, if the cluster was requested and did not answer.
    """
    bare = replace(broken, data=None, checkpoints=None, cluster=None)
    verdict = bare.again()
    around = look_around(verdict.situation, looked) if verdict.situation else Around()
    if around == Around(trouble=around.trouble):
        return bare, verdict, around.trouble
    seeing = replace(bare, data=around.data, checkpoints=around.checkpoints, cluster=around.cluster)
    return seeing, seeing.again(), around.trouble


def _offer(broken: Broken, found: Checked, plan: Fix, *, is_fixed: bool) -> Offer:
    """Return the proposed change for a finding."""
    planned = [change.repair for change in plan.changes if change.is_for(found.finding)]
    if planned and not is_fixed:
        return Offer(planned[0].overrides, RepairKind.SAME_RUN)
    repair = repair_of(broken, found)
    if repair is None:
        return Offer()
    return Offer(repair.overrides, RepairKind.OTHER_RUN, tuple(effects_of(broken, repair)))


@dataclass(slots=True)
class _Extras:
    """The requested checks that cannot run because an extra is missing."""

    missing: dict[str, MissingExtraError] = field(default_factory=dict)
    """The errors, by the reason under which the skipped rules are counted."""

    def have(self, require: Callable[[], None], reason: str) -> bool:
        """True if the extra is installed. Records it otherwise."""
        try:
            require()
        except MissingExtraError as error:
            self.missing[reason] = error
        return reason not in self.missing

    def told(self, verdict: Verdict) -> Verdict:
        """Return the verdict with missing extras as the reason for skipped rules."""
        for reason in self.missing:
            verdict = verdict.unanswered(reason, _ABSENT[reason])
        return verdict


def _with_paths(verdict: Verdict) -> Verdict:
    """Add the missing paths of a run on this host."""
    if verdict.situation is None:
        return verdict
    absent = absent_here(verdict.situation, lambda path: Path(path).exists())
    return replace(verdict, checked=(*verdict.checked, *absent))


def _on_this_host(verdict: Verdict) -> list[Checked]:
    """Return what this host lacks, if it would run the training itself."""
    situation = verdict.situation
    if situation is None or situation.in_pods:
        return []
    plan = situation.plan
    return [*map(Checked, host_findings(plan, situation.loaded.where, look_at_host(plan)))]


def _with_engine(verdict: Verdict, extras: _Extras, *, wanted: bool) -> Verdict:
    """Add the findings from the engine, if requested."""
    situation = verdict.situation
    if not wanted:
        return verdict.without(NO_ENGINE, 1) if situation is not None else verdict
    if not extras.have(lambda: require_engine(situation), NO_ENGINE):
        return verdict.without(NO_ENGINE, 1)
    if situation is None or has_errors(verdict.findings):
        return verdict.without("engine not checked: there are errors", 1)
    return verdict.adding(asked(situation))


def text_of(file: Path) -> str:
    """Return the text of a spec. Raises if the file is unreadable."""
    with suppress(FindingsError):
        load(file)
    # Keep the line endings, because the file may be written back.
    with file.open(encoding="utf-8-sig", newline="") as stream:
        return stream.read()


def look_around(situation: Situation, looked: Looked) -> Around:
    """Read the requested sources once."""
    around = Around(
        _data_of(situation) if looked.data else None,
        _checkpoints_of(situation, stores=looked.data),
    )
    if not looked.cluster:
        return around
    try:
        return replace(around, cluster=_cluster_of(situation, looked))
    except ClusterError as trouble:
        # The other sources are still useful.
        return replace(around, trouble=trouble)


def _data_of(situation: Situation) -> DataProbe:
    # Imported here because the rest of the check needs no data libraries.
    from seatrial.checks.probes.data import DataReader  # noqa: PLC0415

    mount = situation.spec.cluster.storage.mount if situation.in_pods else ""
    return DataReader(situation.plan.model.tokenizer, mount)


def _checkpoints_of(situation: Situation, *, stores: bool) -> CheckpointProbe | None:
    """Return the reader of checkpoints if this host can see any. Object stores only if `stores`."""
    places = places_of(situation)
    here = not situation.in_pods
    # A run on this host has nowhere else to look: report a named location that is missing.
    named = here and len(places) > 1
    if not named and not any((stores and "://" in each) or Path(each).is_dir() for each in places):
        return None
    return CheckpointReader(stores=stores, here=here)


def _cluster_of(situation: Situation, looked: Looked) -> ClusterFacts:
    """Read the cluster, as far as the account has permission."""
    if not has_manifests(situation):
        raise UsageError(
            f"{situation.spec.name} has no Kubernetes objects: its engine is "
            f"{situation.spec.engine.name} and its profile {situation.plan.machines.profile}. "
            "Omit --cluster."
        )
    namespace = situation.spec.cluster.namespace
    site = connect.connect(
        namespace,
        kubeconfig=looked.kubeconfig,
        context=looked.context,
        tell=looked.tell,
        patience=BRIEF,
    )
    # A short request detects a server that accepts connections but never responds.
    site.api.answer(replace(READY, read_seconds=FIRST_ANSWER))
    return facts_of(situation, site)


def facts_of(situation: Situation, site: Site) -> ClusterFacts:
    """Read the facts about a cluster that matter to a run. Sends objects only as dry runs."""
    catalog, where = situation.catalog, situation.loaded.where
    try:
        plan = connect.fitting(site, situation.plan, catalog, where)
        gang = gang_in(site, plan)
        attempt = Attempt(code_digest=own_digest(), gang=gang)
        made = render(plan, catalog, Part.RUN, attempt, where)
    except ClusterError:
        raise
    except FindingsError:
        # The operator is missing, or no manifests are possible. A rule reports both.
        return gather(site.api, site.namespace, ())
    facts = gather(site.api, site.namespace, made.manifests)
    return replace(facts, taken=tuple(taken_names(site, plan, made.manifests, gang.scheduler)))
