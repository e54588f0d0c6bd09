# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Facts about a cluster that the rules use. A probe reads them once."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from seatrial.findings import Finding

_QUANTITY = re.compile(r"([0-9.]+)([A-Za-z]*)")
_SCALE = {"m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_SCALE |= {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
NOTHING: Mapping[str, float] = MappingProxyType({})


def number(quantity: object) -> float:
    """Convert a Kubernetes quantity to a number of CPUs, bytes or devices."""
    match = _QUANTITY.fullmatch(str(quantity))
    return float(match[1]) * _SCALE.get(match[2], 1.0) if match else 0.0


def numbers(quantities: Mapping[str, object] | None) -> Mapping[str, float]:
    """Convert quantities by name to numbers."""
    return {name: number(value) for name, value in (quantities or {}).items()}


class Subject(StrEnum):
    """The lists to read. An account may lack the permission for any of them."""

    NAMESPACES = "namespaces"
    CONTROLLERS = "deployments"
    DAEMONS = "daemonsets"
    NODES = "nodes"
    CLAIMS = "persistentvolumeclaims"
    CLASSES = "storageclasses"
    DRIVERS = "csidrivers"
    SECRETS = "secrets"
    ACCOUNTS = "serviceaccounts"
    PRIORITIES = "priorityclasses"
    QUOTAS = "resourcequotas"
    LIMITS = "limitranges"
    LOCAL_QUEUES = "localqueues"
    CLUSTER_QUEUES = "clusterqueues"
    FLAVORS = "resourceflavors"
    TOPOLOGIES = "topologies"


@dataclass(frozen=True, slots=True)
class NamespaceFacts:
    name: str
    enforces: str = ""
    """The Pod Security level that the namespace enforces; empty for none."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the namespace; queues use them to select namespaces."""
    ending: bool = False
    """True while it is being deleted."""


@dataclass(frozen=True, slots=True)
class Controller:
    """A deployment or daemon set that may belong to a component."""

    name: str
    namespace: str
    wanted: int
    """Desired number of pods."""
    ready: int
    """Number of ready pods."""
    version: str = ""
    """Its version, such as `1.9.3`; empty if its image has no version tag."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint on a node."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"
    """The effect on pods that do not tolerate it."""

    def __str__(self) -> str:
        """Format the taint as kubectl does."""
        value = f"={self.value}" if self.value else ""
        return f"{self.key}{value}:{self.effect}"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A group of identical nodes."""

    count: int
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, float] = NOTHING
    """Allocatable resources."""
    ready: bool = True
    """True if their kubelets report them as ready."""
    schedulable: bool = True
    """True if they are not cordoned."""


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """A persistent volume claim."""

    name: str
    namespace: str
    phase: str
    """`Bound`, `Pending` or `Lost`."""
    access_modes: tuple[str, ...]
    """Its access modes."""
    capacity: int
    """Size of the volume in bytes, or the requested size if there is no volume yet."""
    free: int | None = None
    """Free bytes; `None` if unknown, because the API server does not report them."""
    storage_class: str = ""
    ending: bool = False
    """True while it is being deleted."""


@dataclass(frozen=True, slots=True)
class StorageClassFacts:
    name: str
    provisioner: str
    """The driver that provisions its volumes."""


@dataclass(frozen=True, slots=True)
class SecretFacts:
    """A secret, without its values."""

    name: str
    namespace: str
    keys: tuple[str, ...]
    kind: str = ""
    """Its type; empty if unknown."""


@dataclass(frozen=True, slots=True)
class QuotaFacts:
    """A resource quota in a namespace."""

    name: str
    namespace: str
    hard: Mapping[str, float]
    """The limits."""
    used: Mapping[str, float] = NOTHING
    """The usage."""
    scoped: bool = False
    """True if it applies only to some pods, possibly not to the pods of the run."""


@dataclass(frozen=True, slots=True)
class LimitFacts:
    """The maximum that a container in a namespace may request."""

    name: str
    """The name of the limit range."""
    namespace: str
    most: Mapping[str, float]
    """The maximum of each resource."""


@dataclass(frozen=True, slots=True)
class LocalQueueFacts:
    """A local queue in a namespace."""

    name: str
    namespace: str
    cluster_queue: str
    """The cluster queue that it refers to."""
    stopped: bool = False
    """True if it is stopped."""


@dataclass(frozen=True, slots=True)
class ClusterQueueFacts:
    """A cluster queue with its quota, summed over its flavors."""

    name: str
    quota: Mapping[str, float]
    """The quota of each resource that it covers."""
    borrows: Mapping[str, float] = NOTHING
    """How much more the queue may borrow from its cohort; infinite if there is no limit."""
    flavors: tuple[str, ...] = ()
    """The flavors of its resources."""
    cohort: str = ""
    """The cohort that it shares quota with; empty for none."""
    stopped: bool = False
    """True if it is stopped."""
    chooses: Mapping[str, str] | None = field(default_factory=dict)
    """Labels of the namespaces that the queue admits; `None` if it admits none."""


@dataclass(frozen=True, slots=True)
class FlavorFacts:
    """A resource flavor in Kueue."""

    name: str
    labels: Mapping[str, str]
    """Labels of its nodes."""
    topology: str = ""
    """The topology for placing pods on its nodes; empty for none."""


@dataclass(frozen=True, slots=True)
class TopologyFacts:
    """A topology in Kueue."""

    name: str
    levels: tuple[str, ...]
    """Node labels, from the widest group to the narrowest."""


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """A permission."""

    verb: str
    resource: str
    """The resource, followed by a dot and its API group if it has one."""
    namespace: str = ""
    """The namespace; empty for the whole cluster."""


@dataclass(frozen=True, slots=True)
class AccessRefusal:
    """An object that the API server rejected in a dry run."""

    about: str
    """The object, such as `PyTorchJob research/slim-7b`."""
    said: str


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The facts about a cluster that the rules use."""

    namespace: str
    """The run's namespace, which may be the only visible namespace."""
    definitions: Mapping[str, tuple[str, ...]]
    """Served versions of custom resources, by name, such as `pytorchjobs.kubeflow.org`."""
    kubernetes: str = ""
    """The version of the API server, such as `1.31`; empty if unknown."""
    unseen: frozenset[Subject] = frozenset()
    """The lists that could not be read."""
    only_here: frozenset[Subject] = frozenset()
    """The lists that were read only in the run's namespace."""
    grows: bool | None = False
    """True if the cluster has an autoscaler; `None` if unknown."""
    trainer_form: str = ""
    """The Trainer release whose API fields the cluster serves; empty if unknown."""
    namespaces: tuple[NamespaceFacts, ...] = ()
    controllers: tuple[Controller, ...] = ()
    daemons: tuple[Controller, ...] = ()
    nodes: tuple[NodeFacts, ...] = ()
    claims: tuple[ClaimFacts, ...] = ()
    classes: tuple[StorageClassFacts, ...] = ()
    drivers: tuple[str, ...] = ()
    secrets: tuple[SecretFacts, ...] = ()
    """Secrets, without their values."""
    accounts: tuple[tuple[str, str], ...] = ()
    """Service accounts, as namespace and name."""
    priorities: tuple[str, ...] = ()
    """Priority classes."""
    lock_keys: tuple[str, ...] | None = None
    """Keys of the ConfigMap from which pods install the worker; empty if it does not exist, `None`
    if it could not be read."""
    quotas: tuple[QuotaFacts, ...] = ()
    limits: tuple[LimitFacts, ...] = ()
    local_queues: tuple[LocalQueueFacts, ...] = ()
    cluster_queues: tuple[ClusterQueueFacts, ...] = ()
    flavors: tuple[FlavorFacts, ...] = ()
    """Resource flavors in Kueue."""
    topologies: tuple[TopologyFacts, ...] = ()
    denied: tuple[Right, ...] = ()
    """Permissions that a launch needs and the account lacks."""
    refusals: tuple[AccessRefusal, ...] = ()
    """Objects of the run that the API server rejects."""
    taken: tuple[Finding, ...] = ()
    """Findings about objects with the same names that belong to other owners; `launch` reports them
    too."""

    def sees(self, subject: Subject, namespace: str = "") -> bool:
        """True if a list was read, in this namespace if one is passed."""
        if subject in self.unseen:
            return False
        return not namespace or subject not in self.only_here or namespace == self.namespace

    def serves(self, definition: str, version: str = "") -> bool:
        """True if the cluster serves a custom resource, in this version if one is passed."""
        versions = self.definitions.get(definition, ())
        return version in versions if version else bool(versions)
