# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Checking a run with what lies around it: data, checkpoints, the engine and the cluster."""

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
from seatrial.checks.repairs.fix import Fix, plan_fix
from seatrial.checks.repairs.repair import Broken, effects_of, repair_of
from seatrial.checks.resume_source import places_of
from seatrial.checks.rule import Checked, RepairKind, Situation
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
from seatrial.runs.namespace import Site, Tell
from seatrial.runs.objects import taken_names
from seatrial.sdk.data import require_data_extra
from seatrial.sdk.plan import Overrides, PathOrText, override_texts
from seatrial.spec.loader import LoadedSpec, load

ABSENT = "not installed"
"""Why something that was to be looked at was not."""
BRIEF = CallPatience(outage=8.0, failing=8.0, credentials=4.0, recovery=8.0)
"""How long a check waits for a cluster: whoever asks can ask again, and has no run to lose."""
FIRST_ANSWER = 5.0
"""Seconds within which a server has to answer the first question."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What else than the spec is looked at."""

    data: bool = False
    """Whether tokenizers, prepared data and corpora are."""
    cluster: bool = False
    kubeconfig: str = ""
    """The kubeconfig, as far as it is given."""
    context: str = ""
    """The context, as far as it is given."""
    tell: Tell | None = None
    """Told what takes long."""


@dataclass(frozen=True, slots=True)
class Around:
    """What lies around a run, as far as it is looked at."""

    data: DataProbe | None = None
    """Tokenizers, prepared data and corpora."""
    checkpoints: CheckpointProbe | None = None
    cluster: ClusterFacts | None = None
    trouble: ClusterError | None = None
    """Why the cluster could not be asked, where it was to be."""


def planner_beside(file: Path, catalog: Catalog) -> Callable[[LoadedSpec], PlannedRun]:
    """Plans specs with what is kept beside a file: its calibration, and its choices."""

    def of_spec(loaded: LoadedSpec) -> PlannedRun:
        return reuse_or_plan(resolve_basis(loaded, catalog), file).run

    return of_spec


@dataclass(frozen=True, slots=True)
class Offer:
    """What a check offers for a finding."""

    overrides: tuple[str, ...] = ()
    """The change; empty if there is none."""
    kind: str = ""
    """The kind of the change; `same-run` if `--fix` writes it."""
    effects: tuple[str, ...] = ()
    """What it does to the run, in words."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a check has found, what it offers, and what it could not look at."""

    verdict: Verdict
    offers: tuple[Offer, ...]
    """One for each thing found, in the order of the verdict."""
    fix: Fix
    """The respellings that leave the run the same."""
    is_fixed: bool
    """Whether they are written."""
    trouble: ClusterError | None = None
    """Why the cluster could not be asked, where it was to be."""
    missing: tuple[MissingExtraError, ...] = ()
    """Optional parts that are not installed, and that what was asked for needs."""


def check(
    path: PathOrText,
    overrides: Overrides = (),
    *,
    data: bool = False,
    cluster: bool = False,
    kubeconfig: str = "",
    context: str = "",
) -> Verdict:
    """Apply every rule to a run, before a GPU is asked for; findings are given, not raised.

    Args:
        path: The spec.
        overrides: Fields to set differently.
        data: Whether tokenizers, prepared data and corpora are looked at from here.
        cluster: Whether the cluster is looked at; nothing is changed there.
        kubeconfig: The kubeconfig; KUBECONFIG, else ~/.kube/config, when empty.
        context: The context in it; the current one when empty.
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
    return verdict


def check_and_repair(
    file: Path,
    overrides: tuple[str, ...],
    looked: Looked,
    *,
    engine: bool = False,
    write: Callable[[Fix], None] | None = None,
) -> Outcome:
    """Check a run with all that is asked for, and find what would mend it.

    Args:
        file: The spec.
        overrides: Fields to set differently.
        looked: What else than the spec is looked at.
        engine: Whether the engine is asked about the production arguments.
        write: Writes the respellings that leave the run the same; they are left when absent.
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
    # Overrides are not in the file, so nothing could be written for what they say.
    fix = plan_fix(broken, verdict) if not overrides else Fix(text, broken, verdict, ())
    if write is not None:
        write(fix)
        if fix.changes:
            # What the API server says of the objects was said of those before. One that gave no
            # answer is not waited for again.
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
    missing = tuple(extras.missing.values())
    return Outcome(verdict, tuple(offers), fix, is_fixed, trouble, missing)


def _looking(broken: Broken, looked: Looked) -> tuple[Broken, Verdict, ClusterError | None]:
    """The same run, with all that is to be looked at around it, and the verdict on it.

    And why the cluster could not be asked, where it was to be.
    """
    bare = replace(broken, data=None, checkpoints=None, cluster=None)
    verdict = bare.again()
    around = look_around(verdict.situation, looked) if verdict.situation else Around()
    if around == Around(trouble=around.trouble):
        return bare, verdict, around.trouble
    seeing = replace(bare, data=around.data, checkpoints=around.checkpoints, cluster=around.cluster)
    return seeing, seeing.again(), around.trouble


def _offer(broken: Broken, found: Checked, plan: Fix, *, is_fixed: bool) -> Offer:
    """The change for a finding, as `--fix` would treat it."""
    planned = [change.repair for change in plan.changes if change.is_for(found.finding)]
    if planned and not is_fixed:
        return Offer(planned[0].overrides, RepairKind.SAME_RUN)
    repair = repair_of(broken, found)
    if repair is None:
        return Offer()
    return Offer(repair.overrides, RepairKind.OTHER_RUN, tuple(effects_of(broken, repair)))


@dataclass(slots=True)
class _Extras:
    """What was to be looked at and cannot be, because an optional part is not installed."""

    missing: dict[str, MissingExtraError] = field(default_factory=dict)
    """What is missing, by the reason under which its rules are counted."""

    def have(self, require: Callable[[], None], reason: str) -> bool:
        """Whether it is installed; what is missing is noted."""
        try:
            require()
        except MissingExtraError as error:
            self.missing[reason] = error
        return reason not in self.missing

    def told(self, verdict: Verdict) -> Verdict:
        """The verdict, with what is missing as the reason why rules were not applied."""
        for reason in self.missing:
            verdict = verdict.unanswered(reason, f"{reason.partition(':')[0]}: {ABSENT}")
        return verdict


def _with_paths(verdict: Verdict) -> Verdict:
    """The verdict with the paths of a run on this host that are not there."""
    if verdict.situation is None:
        return verdict
    absent = absent_here(verdict.situation, lambda path: Path(path).exists())
    return replace(verdict, checked=(*verdict.checked, *absent))


def _with_engine(verdict: Verdict, extras: _Extras, *, wanted: bool) -> Verdict:
    """The verdict with what the engine itself says, where it is asked."""
    situation = verdict.situation
    if not wanted:
        return verdict.without(NO_ENGINE, 1) if situation is not None else verdict
    if not extras.have(lambda: require_engine(situation), NO_ENGINE):
        return verdict.without(NO_ENGINE, 1)
    if situation is None or has_errors(verdict.findings):
        return verdict.without("engine not checked: there are errors", 1)
    return verdict.adding(asked(situation))


def text_of(file: Path) -> str:
    """The text of a spec; a file that cannot be read as one raises."""
    with suppress(FindingsError):
        load(file)
    # Lines end as they do in the file, for it may be written again.
    with file.open(encoding="utf-8-sig", newline="") as stream:
        return stream.read()


def look_around(situation: Situation, looked: Looked) -> Around:
    """What lies around a run: read once, and then only looked at."""
    around = Around(
        _data_of(situation) if looked.data else None,
        _checkpoints_of(situation, stores=looked.data),
    )
    if not looked.cluster:
        return around
    try:
        return replace(around, cluster=_cluster_of(situation, looked))
    except ClusterError as trouble:
        # What is known without the cluster is known all the same.
        return replace(around, trouble=trouble)


def _data_of(situation: Situation) -> DataProbe:
    # Loaded here because the rest of the check needs none of the data libraries.
    from seatrial.checks.probes.data import DataReader  # noqa: PLC0415

    mount = situation.spec.cluster.storage.mount if situation.in_pods else ""
    return DataReader(situation.plan.model.tokenizer, mount)


def _checkpoints_of(situation: Situation, *, stores: bool) -> CheckpointProbe | None:
    """The reader of checkpoints, where this host sees a place of them; object stores if wanted."""
    places = places_of(situation)
    here = not situation.in_pods
    # Of a run on this host, a place that the spec names and that is not here is nowhere.
    named = here and len(places) > 1
    if not named and not any((stores and "://" in each) or Path(each).is_dir() for each in places):
        return None
    return CheckpointReader(stores=stores, here=here)


def _cluster_of(situation: Situation, looked: Looked) -> ClusterFacts:
    """What the cluster is like, as far as the account may look."""
    if not has_manifests(situation):
        raise UsageError(
            f"{situation.spec.name} brings no objects to a cluster: its engine is "
            f"{situation.spec.engine.name} and its profile {situation.plan.machines.profile}. "
            "Leave --cluster out."
        )
    namespace = situation.spec.cluster.namespace
    site = connect.connect(
        namespace,
        kubeconfig=looked.kubeconfig,
        context=looked.context,
        tell=looked.tell,
        patience=BRIEF,
    )
    # A server that takes calls and says nothing is found out by a short one.
    site.api.answer(replace(READY, read_seconds=FIRST_ANSWER))
    return facts_of(situation, site)


def facts_of(situation: Situation, site: Site) -> ClusterFacts:
    """What a cluster is like for a run; objects are sent to it as dry runs only."""
    catalog, where = situation.catalog, situation.loaded.where
    try:
        plan = connect.fitting(site, situation.plan, catalog, where)
        made = render(plan, catalog, Part.RUN, Attempt(code_digest=own_digest()), where)
    except ClusterError:
        raise
    except FindingsError:
        # The operator is missing, or there can be no manifests: a rule tells either.
        return gather(site.api, site.namespace, ())
    facts = gather(site.api, site.namespace, made.manifests)
    return replace(facts, taken=tuple(taken_names(site, plan, made.manifests)))
