# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Checking a run with what lies around it: data, checkpoints and the cluster."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from seatrial.catalog.catalog import Catalog
from seatrial.checks.check import Verdict, check, has_manifests
from seatrial.checks.data_facts import DataProbe
from seatrial.checks.planned import planned
from seatrial.checks.saved.facts import CheckpointProbe
from seatrial.checks.saved.wanted import places_of
from seatrial.checks.site.facts import ClusterFacts
from seatrial.checks.situation import Situation
from seatrial.cluster.api import READY, Patience
from seatrial.cluster.errors import ClusterError
from seatrial.errors import FindingsError, UsageError
from seatrial.planning.search.planner import PlannedRun
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.render import Part, render
from seatrial.runs.clusters import connect, fitting
from seatrial.runs.kept_plan import find
from seatrial.runs.own_files import own_digest
from seatrial.runs.site import Site, Tell
from seatrial.spec.loader import LoadedSpec, load

BRIEF = Patience(outage=8.0, failing=8.0, credentials=4.0, recovery=8.0)
"""How long a check waits for a cluster: whoever asks can ask again, and has no run to lose."""
FIRST_ANSWER = 5.0
"""Seconds within which a server has to answer the first question."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What else than the spec is looked at."""

    data: bool = False
    """Whether tokenizers, prepared data and corpora are."""
    cluster: bool = False
    """Whether the cluster is."""
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
    """Checkpoints."""
    cluster: ClusterFacts | None = None
    """The cluster."""
    trouble: ClusterError | None = None
    """Why the cluster could not be asked, where it was to be."""


def planner_beside(file: Path, catalog: Catalog) -> Callable[[LoadedSpec], PlannedRun]:
    """Plans specs with what is kept beside a file: its calibration, and its choices."""

    def of_spec(loaded: LoadedSpec) -> PlannedRun:
        found = find(loaded, catalog, file)
        return planned(loaded, catalog, calibration=found.calibration, kept=found.choices)

    return of_spec


def check_file(file: Path, catalog: Catalog, overrides: tuple[str, ...], looked: Looked) -> Verdict:
    """The verdict on the run of a file, with the plan that is kept beside it."""
    of_spec = planner_beside(file, catalog)
    text = text_of(file)
    bare = check(text, str(file), catalog, overrides, planner=of_spec)
    if bare.situation is None:
        return bare
    around = look_around(bare.situation, looked)
    if around.trouble is not None:
        raise around.trouble
    return check(
        text,
        str(file),
        catalog,
        overrides,
        data=around.data,
        checkpoints=around.checkpoints,
        cluster=around.cluster,
        planner=of_spec,
    )


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
    from seatrial.checks.data_reader import DataReader  # noqa: PLC0415

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
    # Loaded here because most runs that are checked have no checkpoint yet.
    from seatrial.checks.saved.reader import CheckpointReader  # noqa: PLC0415

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
    site = connect(
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
    # Loaded here because a check without a cluster needs none of it.
    from seatrial.checks.site.reader import gather  # noqa: PLC0415

    catalog, where = situation.catalog, situation.loaded.where
    try:
        plan = fitting(site, situation.plan, catalog, where)
        made = render(plan, catalog, Part.RUN, Attempt(code_digest=own_digest()), where)
    except ClusterError:
        raise
    except FindingsError:
        # The operator is missing, or there can be no manifests: a rule tells either.
        return gather(site.api, site.namespace, ())
    return gather(site.api, site.namespace, made.manifests)
