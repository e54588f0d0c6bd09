# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the state of a cluster: each list, permission and object once.

The probe is read-only: it sends objects as dry runs. It records lists that the account cannot read
as unseen. It keeps only the names, types and keys of secrets, never their values.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from seatrial.checks.cluster import parsing
from seatrial.checks.cluster.facts import AccessRefusal, ClusterFacts, Right, Subject
from seatrial.checks.rules.cluster.rights import following_rights, rights_for
from seatrial.cluster import kinds, objects
from seatrial.cluster.api import Api
from seatrial.cluster.discovery import served_definitions, server_version, trainer_form
from seatrial.cluster.errors import ClusterError, ConflictError, DeniedError, NotServedError
from seatrial.cluster.kinds import ObjectKind, kind_of
from seatrial.cluster.transport import Json
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.volumes import LOCK_CONFIG

_KINDS: dict[Subject, ObjectKind] = {
    Subject.CONTROLLERS: kinds.DEPLOYMENT,
    Subject.DAEMONS: kinds.DAEMON_SET,
    Subject.NODES: kinds.NODE,
    Subject.CLAIMS: kinds.VOLUME_CLAIM,
    Subject.CLASSES: kinds.STORAGE_CLASS,
    Subject.DRIVERS: kinds.CSI_DRIVER,
    Subject.SECRETS: kinds.SECRET,
    Subject.ACCOUNTS: kinds.SERVICE_ACCOUNT,
    Subject.PRIORITIES: kinds.PRIORITY_CLASS,
    Subject.QUOTAS: kinds.RESOURCE_QUOTA,
    Subject.LIMITS: kinds.LIMIT_RANGE,
    Subject.LOCAL_QUEUES: kinds.LOCAL_QUEUE,
    Subject.CLUSTER_QUEUES: kinds.CLUSTER_QUEUE,
    Subject.FLAVORS: kinds.RESOURCE_FLAVOR,
    Subject.TOPOLOGIES: kinds.TOPOLOGY,
}
"""The object kind of each subject. Namespaces are read differently."""

GROWING = ("nodepools.karpenter.sh", "provisioningrequests.autoscaling.x-k8s.io")
"""CRDs that indicate an autoscaler."""
AUTOSCALER = "cluster-autoscaler-status"
"""The ConfigMap in which the Cluster Autoscaler reports its state."""


@dataclass(slots=True)
class _Lists:
    """The lists of a cluster that the account can read."""

    api: Api
    namespace: str
    found: dict[Subject, list[Json]] = field(default_factory=dict)
    unseen: set[Subject] = field(default_factory=set)
    only_here: set[Subject] = field(default_factory=set)

    def look(self, subject: Subject, kind: ObjectKind) -> None:
        """List the objects in all namespaces or, if that is denied, in the run's namespace."""
        for namespace in ("", self.namespace) if kind.namespaced else ("",):
            try:
                self.found[subject] = objects.list_all(self.api, kind, namespace)[0]
            except DeniedError:
                continue
            except NotServedError:
                self.found[subject] = []
            if namespace:
                self.only_here.add(subject)
            return
        self.unseen.add(subject)

    def namespaces(self) -> None:
        """List all namespaces or, if that is denied, read the run's namespace."""
        subject = Subject.NAMESPACES
        try:
            self.found[subject] = objects.list_all(self.api, kinds.NAMESPACE)[0]
            return
        except DeniedError:
            self.only_here.add(subject)
        try:
            own = objects.read(self.api, kinds.NAMESPACE, "", self.namespace)
            self.found[subject] = [own] if own is not None else []
        except DeniedError:
            self.unseen.add(subject)


def gather(api: Api, namespace: str, manifests: Sequence[Manifest]) -> ClusterFacts:
    """Return the facts about a cluster for a run that would create these objects."""
    definitions = served_definitions(api)
    lists = _Lists(api, namespace)
    lists.namespaces()
    for subject, kind in _KINDS.items():
        if kind.group != kinds.LOCAL_QUEUE.group:
            lists.look(subject, kind)
        elif versions := definitions.get(f"{kind.plural}.{kind.group}"):
            # Since 0.15 Kueue serves v1beta2 in addition to v1beta1, which it will drop.
            version = kind.version if kind.version in versions else versions[0]
            lists.look(subject, replace(kind, version=version))
    form = trainer_form(api) if "trainjobs.trainer.kubeflow.org" in definitions else None
    return ClusterFacts(
        namespace=namespace,
        definitions=definitions,
        kubernetes=server_version(api),
        unseen=frozenset(lists.unseen),
        only_here=frozenset(lists.only_here),
        grows=_grows(api, definitions),
        trainer_form=str(form or ""),
        lock_keys=_lock_keys(api, namespace),
        **_parsed(lists.found),
        denied=_denied(api, manifests, namespace),
        refusals=_refusals(api, manifests),
    )


def _grows(api: Api, definitions: dict[str, tuple[str, ...]]) -> bool | None:
    """True if the cluster adds nodes for pending pods; `None` if unknown.

    Managed autoscalers have no visible pods, but all of them write a status ConfigMap.
    """
    if any(name in definitions for name in GROWING):
        return True
    try:
        return objects.read(api, kinds.CONFIG_MAP, "kube-system", AUTOSCALER) is not None
    except DeniedError:
        return None


def _lock_keys(api: Api, namespace: str) -> tuple[str, ...] | None:
    """Return the lock files from which pods can install the worker; `None` if not readable."""
    try:
        found = objects.read(api, kinds.CONFIG_MAP, namespace, LOCK_CONFIG)
    except DeniedError:
        return None
    return tuple((found or {}).get("data") or ())


def _parsed(found: dict[Subject, list[Json]]) -> dict[str, Any]:
    """Convert the lists to facts."""

    def of(subject: Subject) -> list[Json]:
        return found.get(subject, [])

    return {
        "namespaces": tuple(map(parsing.namespace, of(Subject.NAMESPACES))),
        "controllers": tuple(map(parsing.controller, of(Subject.CONTROLLERS))),
        "daemons": tuple(map(parsing.controller, of(Subject.DAEMONS))),
        "nodes": parsing.nodes(of(Subject.NODES)),
        "claims": tuple(map(parsing.claim, of(Subject.CLAIMS))),
        "classes": tuple(map(parsing.storage_class, of(Subject.CLASSES))),
        "drivers": tuple(parsing.name(item) for item in of(Subject.DRIVERS)),
        "secrets": tuple(map(parsing.secret, of(Subject.SECRETS))),
        "accounts": tuple((parsing.place(i), parsing.name(i)) for i in of(Subject.ACCOUNTS)),
        "priorities": tuple(parsing.name(item) for item in of(Subject.PRIORITIES)),
        "quotas": tuple(map(parsing.quota, of(Subject.QUOTAS))),
        "limits": tuple(each for item in of(Subject.LIMITS) for each in parsing.limits(item)),
        "local_queues": tuple(map(parsing.local_queue, of(Subject.LOCAL_QUEUES))),
        "cluster_queues": tuple(map(parsing.cluster_queue, of(Subject.CLUSTER_QUEUES))),
        "flavors": tuple(map(parsing.flavor, of(Subject.FLAVORS))),
        "topologies": tuple(map(parsing.topology, of(Subject.TOPOLOGIES))),
    }


def _denied(api: Api, manifests: Sequence[Manifest], namespace: str) -> tuple[Right, ...]:
    """Return the permissions that a launch needs and the account lacks."""
    known = {f"{kind.plural}.{kind.group}".rstrip("."): kind for kind in kinds.KINDS}

    def may(right: Right) -> bool:
        resource, _, part = right.resource.partition("/")
        return objects.may(api, right.verb, known[resource], namespace, part)

    asked = rights_for(manifests, namespace) + following_rights(manifests, namespace)
    return tuple(right for right in asked if not may(right))


def _refusals(api: Api, manifests: Sequence[Manifest]) -> tuple[AccessRefusal, ...]:
    """Return the objects that the API server rejects in a strict dry run."""
    found = []
    job = manifests[-1] if manifests else None
    for manifest in manifests:
        kind, head = kind_of(manifest), manifest["metadata"]
        try:
            if manifest is job:
                objects.create(api, manifest, dry_run=True)
            else:
                objects.preview(api, manifest)
        except (ConflictError, DeniedError, NotServedError):
            # The object exists already, or a different rule reports why it cannot be created.
            continue
        except ClusterError as error:
            said = error.findings[0].value or error.findings[0].rule
            if not _waits(manifest, said) and not _no_namespace(said):
                found.append(
                    AccessRefusal(kind.about(head.get("namespace", ""), head["name"]), said)
                )
    return tuple(found)


def _waits(manifest: Manifest, said: str) -> bool:
    """True if an object is rejected only because a different object of the run is still missing.

    Trainer rejects a TrainJob without its runtime, which never exists in a dry run.
    """
    return manifest["kind"] == "TrainJob" and "not found" in said


def _no_namespace(said: str) -> bool:
    return said.startswith("namespaces ") and said.endswith("not found")
