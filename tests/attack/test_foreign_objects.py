# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Objects of other owners under every name that a run uses, before a real API server.

Each is in the way of a run while all commands that write to a cluster work on that run: it must
have the same uid, version and content afterwards.
"""

import copy
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seatrial.cluster import objects
from seatrial.cluster.kinds import (
    CONFIG_MAP,
    DEPLOYMENT,
    HYPERPOD_JOB,
    JOB,
    JOB_SET,
    KINDS,
    NETWORK_POLICY,
    POD,
    POD_MONITOR,
    PYTORCH_JOB,
    RAY_JOB,
    SERVICE,
    SERVICE_ACCOUNT,
    TRAIN_JOB,
    TRAINING_RUNTIME,
    VOLUME_CLAIM,
    ObjectKind,
)
from seatrial.cluster.transport import Answer, Call, Json
from seatrial.errors import FindingsError
from seatrial.planning.plan import Plan
from seatrial.rendering.reader_pod import VolumeCommand
from seatrial.rendering.rules import unnamed_place
from seatrial.runs.data import reader_pod
from seatrial.runs.data.prepare import prepare_on_cluster
from seatrial.runs.data.reader_pod import read_inside
from seatrial.runs.launch.connect import connect
from seatrial.runs.launch.kubernetes import ClusterBackend
from seatrial.runs.launch.launcher import Launched, Wanted, launch
from seatrial.runs.namespace import Site
from seatrial.runs.objects import create_or_apply
from seatrial.runs.stop import delete, stop
from tests.attack.whole_run import CATALOG, OPERATORS, namespaced_manifests, whole_plan
from tests.cluster.cluster import Cluster, Tier, running
from tests.cluster.daemon import wait_until

pytestmark = [pytest.mark.attack, pytest.mark.timeout(1200)]

Size = Callable[[int, int], int]
RUN = "slim-7b"
CUSTOM = (PYTORCH_JOB, TRAIN_JOB, TRAINING_RUNTIME, HYPERPOD_JOB, JOB_SET, RAY_JOB, POD_MONITOR)
"""Kinds that a bare API server does not serve; here it serves them without a schema."""
NAMES: tuple[tuple[ObjectKind, str], ...] = (
    *((CONFIG_MAP, f"{RUN}--{part}") for part in ("spec", "ledger")),
    *((kind, RUN) for kind in (SERVICE_ACCOUNT, VOLUME_CLAIM, NETWORK_POLICY, POD_MONITOR)),
    *((NETWORK_POLICY, f"{RUN}--{part}") for part in ("tensorboard", "ray")),
    (DEPLOYMENT, f"{RUN}--tensorboard"),
    *((SERVICE, f"{RUN}--{part}") for part in ("tensorboard", "meeting")),
    *((kind, RUN) for kind in (PYTORCH_JOB, TRAINING_RUNTIME, TRAIN_JOB, HYPERPOD_JOB, JOB_SET)),
    *((JOB, f"{RUN}--{part}") for part in ("data-list", "data", "data-end")),
    *((kind, f"{RUN}--reader-00000000") for kind in (CONFIG_MAP, POD)),
    (RAY_JOB, f"{RUN}--data"),
    # What earlier versions called the same.
    *((CONFIG_MAP, f"{RUN}-{part}") for part in ("spec", "ledger")),
    *((NETWORK_POLICY, f"{RUN}-{part}") for part in ("tensorboard", "ray")),
    (DEPLOYMENT, f"{RUN}-tensorboard"),
    *((SERVICE, f"{RUN}-{part}") for part in ("tensorboard", "meeting")),
    *((JOB, f"{RUN}-{part}") for part in ("data-list", "data", "data-end")),
)
OWNERS: tuple[Json, ...] = (
    {},
    {"labels": {"app.kubernetes.io/managed-by": "terraform"}},
    {"labels": {"app.kubernetes.io/managed-by": "Helm", "seatrial.dev/run": RUN}},
    {"labels": {"app.kubernetes.io/managed-by": "seatrial", "seatrial.dev/run": "slim"}},
    {"annotations": {"meta.helm.sh/release-name": "baseline"}},
)
"""Who an object says that it belongs to; each of another pretence."""
_COPIED: Json = {
    "labels": {
        "app.kubernetes.io/managed-by": "seatrial",
        "seatrial.dev/run": RUN,
        "seatrial.dev/attempt": "1",
    },
    "annotations": {"seatrial.dev/spec-digest": "sha256:0"},
}
COPIES: dict[str, Json] = {
    "labels copied with kubectl": _COPIED,
    "our Helm chart": _COPIED
    | {"annotations": {**_COPIED["annotations"], "meta.helm.sh/release-name": RUN}},
}
"""Owners whose objects have both labels of the run, as manifests have that were copied."""
MANAGER = "kubectl-client-side-apply"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is on this machine, whatever the environment says of the rest of the world."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(scope="module")
def server() -> Iterator[Cluster]:
    """An API server that serves all kinds of a run."""
    with (
        tempfile.TemporaryDirectory(prefix="seatrial-") as folder,
        running(Path(folder) / "home", Tier.API, None) as found,
    ):
        for kind in CUSTOM:
            _define(found, kind)
        yield found


def _define(server: Cluster, kind: ObjectKind) -> None:
    names = {"kind": kind.name, "plural": kind.plural, "singular": kind.name.lower()}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": kind.version, "served": True, "storage": True}
    api, path = server.api(), f"/apis/{kind.group}/{kind.version}/{kind.plural}"
    made = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{kind.plural}.{kind.group}",
            # Kubernetes keeps some groups to itself, unless somebody says why not.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": names | {"listKind": f"{kind.name}List"},
            "versions": [version | {"schema": {"openAPIV3Schema": schema}}],
        },
    }
    answer = api.create(made)
    assert answer.accepted, answer.message
    wait_until(lambda: api.ask("GET", path).accepted, f"{kind.name} is served")


class TooLongError(Exception):
    """Nothing in this cluster ends by itself: whoever waits has done all its writing."""


@dataclass
class Place:
    """A namespace, and the commands on the run in it."""

    server: Cluster
    namespace: str

    def site(self) -> Site:
        """The namespace as an administrator has it, for whom nothing is forbidden."""
        waits = count()

        def sleep(_: float) -> None:
            if next(waits) > 20:
                raise TooLongError

        site = connect(self.namespace, kubeconfig=str(self.server.kubeconfig))
        return Site(site.api, self.namespace, sleep=sleep)

    def plan(self, operator: str = "pytorchjob", *overrides: str) -> Plan:
        """The run in this namespace, with every part that a run can have."""
        return whole_plan(operator, RUN, self.namespace, *overrides)

    def wanted(self, operator: str = "pytorchjob", *overrides: str) -> Wanted:
        """The run, to be launched."""
        return Wanted(self.plan(operator, *overrides), CATALOG)

    def commands(self) -> list[str]:
        """Run every command that writes to a cluster; how each ended."""
        ends = []
        plan, words = self.plan(), ("checkpoints", "list")
        manifests = [each for one in OPERATORS for each in namespaced_manifests(self.plan(one))]
        deeds: list[Callable[[Site], object]] = [
            *(partial(_launch, self.wanted(each)) for each in OPERATORS),
            lambda site: prepare_on_cluster(site, plan, CATALOG, unnamed_place),
            lambda site: read_inside(site, plan, CATALOG, VolumeCommand(words), print),
            *(partial(create_or_apply, run=RUN, manifest=each) for each in manifests),
            lambda site: stop(site, RUN),
            lambda site: delete(site, RUN, volumes=True),
        ]
        for deed in deeds:
            try:
                deed(self.site())
            except TooLongError:
                ends.append("waits")
            except FindingsError as error:
                ends.append(error.findings[0].code)
            else:
                ends.append("done")
        return ends

    def put(self, kind: ObjectKind, name: str, owner: Json) -> Json:
        """Create an object of another owner, as somebody else's tool does."""
        head = {"name": name, "namespace": self.namespace, **copy.deepcopy(owner)}
        made = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": head, **_body(kind)}
        answer = self.server.api().create(made, {"fieldManager": MANAGER})
        assert answer.accepted, f"{kind.name} {name}: {answer.message}"
        return answer.body

    def read(self, kind: ObjectKind, name: str) -> Json | None:
        """The object as it is now."""
        answer = self.server.api().ask("GET", kind.path(self.namespace, name))
        return answer.body if answer.accepted else None


def _agree(_: object) -> bool:
    return True


def _launch(wanted: Wanted, site: Site) -> Launched:
    return launch(ClusterBackend(site), wanted, _agree)


def _body(kind: ObjectKind) -> Json:
    """The least content that the API server accepts for a kind."""
    container = {"name": "main", "image": "registry.example.com/main:1"}
    pod = {"containers": [container], "restartPolicy": "Never"}
    labels = {"app": "main"}
    template = {"metadata": {"labels": labels}, "spec": pod}
    always = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    storage = {"requests": {"storage": "1Gi"}}
    bodies: dict[ObjectKind, Json] = {
        CONFIG_MAP: {"data": {"run.yaml": "theirs", "attempt-00001": "theirs"}},
        SERVICE_ACCOUNT: {"automountServiceAccountToken": True},
        VOLUME_CLAIM: {"spec": {"accessModes": ["ReadWriteOnce"], "resources": storage}},
        NETWORK_POLICY: {"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}},
        DEPLOYMENT: {"spec": {"selector": {"matchLabels": labels}, "template": always}},
        SERVICE: {"spec": {"selector": labels, "ports": [{"port": 80}]}},
        JOB: {"spec": {"template": template}},
        POD: {"spec": pod},
    }
    return bodies.get(kind, {"spec": {"theirs": True}})


@pytest.fixture
def places(server: Cluster, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Place]:
    """Make namespaces in which pods may be created, with the names of pods known beforehand."""
    monkeypatch.setattr(reader_pod, "uuid4", lambda: SimpleNamespace(hex="0" * 32))

    def place() -> Place:
        made = Place(server, server.new_namespace("foreign"))
        head = {"name": "default", "namespace": made.namespace}
        server.api().create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": head})
        return made

    return place


def _verdict(place: Place, before: list[tuple[ObjectKind, Json]]) -> tuple[list[str], list[str]]:
    """Which objects have changed, and which are gone or were replaced."""
    changed, deleted = [], []
    for kind, item in before:
        name = item["metadata"]["name"]
        now = place.read(kind, name)
        if now is None or now["metadata"]["uid"] != item["metadata"]["uid"]:
            deleted.append(f"{kind.name} {name}")
        elif now != item:
            changed.append(f"{kind.name} {name}")
    return changed, deleted


def test_no_foreign_object_is_changed_or_deleted(
    places: Callable[[], Place],
    attack_size: Size,
    record_property: Callable[[str, object], None],
) -> None:
    # Alone in its namespace, an object is met by the first command that writes to its name. In the
    # short form all are in one, and only what writes to one name at a time gets past the first.
    rounds = [
        [(kind, name, OWNERS[index % len(OWNERS)]) for index, (kind, name) in enumerate(NAMES)],
        *([(kind, name, owner) for kind, name in NAMES] for owner in COPIES.values()),
    ]
    groups = [[each] for met in rounds for each in met] if attack_size(1, 0) else rounds
    changed: list[str] = []
    deleted: list[str] = []
    ends = []
    for group in groups:
        place = places()
        before = [(kind, place.put(kind, name, owner)) for kind, name, owner in group]
        ends.append(place.commands())
        found = _verdict(place, before)
        changed += found[0]
        deleted += found[1]
    figure = (
        f"{sum(map(len, rounds))} foreign objects, {len(NAMES) * len(COPIES)} of them with both "
        f"labels of the run: {len(changed)} changed, {len(deleted)} deleted"
    )
    record_property("figure", figure)
    assert (changed, deleted) == ([], []), ends
    assert len(NAMES) >= 30
    assert {kind for kind, _ in NAMES} >= {kind for kind in KINDS if kind in (*CUSTOM, *_WRITTEN)}


_WRITTEN = (
    *(CONFIG_MAP, SERVICE_ACCOUNT, VOLUME_CLAIM, NETWORK_POLICY, DEPLOYMENT, SERVICE, JOB, POD),
)


class Racing:
    """A transport that lets somebody else act right before the first write to a name."""

    def __init__(self, inner: Any, path: str, acts: Callable[[], None]) -> None:
        self._inner, self._path, self._acts = inner, path, acts
        self.has_acted = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def request(self, call: Call) -> Answer:
        head = (call.body or {}).get("metadata") or {}
        path = f"{call.path}/{head.get('name')}" if call.method == "POST" else call.path
        if not call.reads and path == self._path and not self.has_acted:
            self.has_acted = True
            self._acts()
        answer: Answer = self._inner.request(call)
        return answer


def _race(
    place: Place, kind: ObjectKind, name: str, acts: Callable[[], None]
) -> tuple[Site, Racing]:
    site = place.site()
    racing = Racing(site.api.transport, kind.path(place.namespace, name), acts)
    site.api.transport = racing
    return site, racing


WRITTEN_BY_A_LAUNCH = tuple(
    (kind, name)
    for kind, name in NAMES
    if f"{RUN}-" not in name.replace("--", "+")
    and kind not in (TRAIN_JOB, TRAINING_RUNTIME, HYPERPOD_JOB, JOB, JOB_SET, POD, RAY_JOB)
    and name not in (f"{RUN}--ray", f"{RUN}--reader-00000000")
)


@pytest.mark.parametrize("is_there", [False, True], ids=["created", "replaced"])
def test_no_object_that_comes_after_the_look_is_changed(
    places: Callable[[], Place],
    attack_size: Size,
    record_property: Callable[[str, object], None],
    is_there: bool,
) -> None:
    names = WRITTEN_BY_A_LAUNCH[: attack_size(99, 1)]
    changed: list[str] = []
    deleted: list[str] = []
    raced = 0
    owners = [OWNERS[1], *COPIES.values()]
    for number, (kind, name) in enumerate(names):
        place, theirs, owner = places(), [], owners[number % len(owners)]
        if is_there:
            _launch(place.wanted(), place.site())
            stop(place.site(), RUN)

        def acts(
            kind: ObjectKind = kind, name: str = name, place: Place = place, owner: Json = owner
        ) -> None:
            api = place.server.api()
            api.ask("DELETE", kind.path(place.namespace, name))
            # A claim stays until its finalizer is taken away.
            free = {"metadata": {"finalizers": None}}
            merge = "application/merge-patch+json"
            api.ask("PATCH", kind.path(place.namespace, name), free, content_type=merge)
            theirs.append((kind, place.put(kind, name, owner)))  # noqa: B023

        site, racing = _race(place, kind, name, acts)
        with suppress(FindingsError):
            _launch(place.wanted("pytorchjob", "training.seed=7"), site)
        for deed in (stop, lambda *at: delete(*at, volumes=True)):
            with suppress(FindingsError):
                deed(place.site(), RUN)
        raced += racing.has_acted
        found = _verdict(place, theirs)
        changed += found[0]
        deleted += found[1]
    how = "replace ours" if is_there else "appear"
    record_property(
        "figure",
        f"{raced} foreign objects that {how} after the look: {len(changed)} changed, "
        f"{len(deleted)} deleted",
    )
    assert (changed, deleted) == ([], [])
    assert raced == len(names)


def test_a_run_of_ours_is_created_applied_and_deleted(places: Callable[[], Place]) -> None:
    """The control: what is refused above works where nobody is in the way."""
    place = places()
    assert _launch(place.wanted(), place.site()).attempt == 1
    path = f"{RUN}--spec"
    first = place.read(CONFIG_MAP, path)
    assert first is not None
    first["data"]["stale.toml"] = "of a catalog that the user has removed since"
    stale = {"apiVersion": "v1", "kind": "ConfigMap", "data": first["data"]}
    head = {key: first["metadata"][key] for key in ("name", "namespace", "labels")}
    place.server.api().ask("DELETE", CONFIG_MAP.path(place.namespace, path))
    objects.create(place.site().api, stale | {"metadata": head})
    again = launch(
        ClusterBackend(place.site()), place.wanted("pytorchjob", "training.seed=7"), _agree
    )
    assert again.attempt == 2
    spec = place.read(CONFIG_MAP, path)
    assert spec is not None
    # A field that we created and do not render any more goes.
    assert sorted(spec["data"]) == ["run.yaml"]
    assert '"seed": 7' in spec["data"]["run.yaml"]
    managers = [each["manager"] for each in spec["metadata"]["managedFields"]]
    assert managers == ["seatrial"]
    done = delete(place.site(), RUN, volumes=True)
    assert len(done.removed) == 11, done
    for kind, name in NAMES:
        left = place.read(kind, name)
        assert left is None or left["metadata"].get("deletionTimestamp"), f"{kind.name} {name}"
