# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a cluster is like, as far as the check needs it: gathered once, then only looked at."""

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
    """A quantity of Kubernetes as a number: processors, bytes or devices."""
    match = _QUANTITY.fullmatch(str(quantity))
    return float(match[1]) * _SCALE.get(match[2], 1.0) if match else 0.0


def numbers(quantities: Mapping[str, object] | None) -> Mapping[str, float]:
    """Quantities by name, as numbers."""
    return {name: number(value) for name, value in (quantities or {}).items()}


class Subject(StrEnum):
    """What can be looked at; an account may be denied each."""

    NAMESPACES = "namespaces"
    CONTROLLERS = "deployments"
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
    """The level of pod security that it enforces; empty for none."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Its labels, by which queues choose namespaces."""
    ending: bool = False
    """Whether it is being deleted."""


@dataclass(frozen=True, slots=True)
class Controller:
    """A deployment that may be an operator's."""

    name: str
    namespace: str
    wanted: int
    """Pods that it should have."""
    ready: int
    """Pods that are ready."""
    version: str = ""
    """Its version, such as `1.9.3`; empty where its image does not say."""


@dataclass(frozen=True, slots=True)
class Taint:
    """What keeps pods off a node."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"
    """What it does to pods that do not tolerate it."""

    def __str__(self) -> str:
        """As kubectl writes it."""
        value = f"={self.value}" if self.value else ""
        return f"{self.key}{value}:{self.effect}"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Nodes that are alike."""

    count: int
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, float] = NOTHING
    """What they have for pods."""
    ready: bool = True
    """Whether their kubelet says that they are ready."""
    schedulable: bool = True
    """Whether they are open to new pods."""


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """A persistent volume claim."""

    name: str
    namespace: str
    phase: str
    """`Bound`, `Pending` or `Lost`."""
    access_modes: tuple[str, ...]
    """How it may be mounted."""
    capacity: int
    """Bytes of its volume; of what was asked for while it has none."""
    free: int | None = None
    """Bytes that are free; nobody tells through the API server."""
    storage_class: str = ""
    ending: bool = False
    """Whether it is being deleted."""


@dataclass(frozen=True, slots=True)
class StorageClassFacts:
    name: str
    provisioner: str
    """The driver that makes its volumes."""


@dataclass(frozen=True, slots=True)
class SecretFacts:
    """A secret, without its values."""

    name: str
    namespace: str
    keys: tuple[str, ...]
    kind: str = ""
    """Its type; empty where it is not known."""


@dataclass(frozen=True, slots=True)
class QuotaFacts:
    """A quota of a namespace."""

    name: str
    namespace: str
    hard: Mapping[str, float]
    """How much there may be."""
    used: Mapping[str, float] = NOTHING
    """How much there is."""
    scoped: bool = False
    """Whether it counts only some pods, so that nothing can be said of these."""


@dataclass(frozen=True, slots=True)
class LimitFacts:
    """What a container of a namespace may ask for at most."""

    name: str
    """The name of the limit range."""
    namespace: str
    most: Mapping[str, float]
    """The most of each resource."""


@dataclass(frozen=True, slots=True)
class LocalQueueFacts:
    """The queue of a namespace."""

    name: str
    namespace: str
    cluster_queue: str
    """The queue of the cluster that it leads to."""
    stopped: bool = False
    """Whether it admits nothing for now."""


@dataclass(frozen=True, slots=True)
class ClusterQueueFacts:
    """A queue of the cluster with its quota, all flavors together."""

    name: str
    quota: Mapping[str, float]
    """How much it has of each resource that it covers."""
    borrows: Mapping[str, float] = NOTHING
    """How much more it may borrow from its cohort; infinite where nothing limits it."""
    flavors: tuple[str, ...] = ()
    """The flavors of its resources."""
    cohort: str = ""
    """The queues that it shares with; empty for none."""
    stopped: bool = False
    """Whether it admits nothing for now."""
    chooses: Mapping[str, str] | None = field(default_factory=dict)
    """Labels of the namespaces that it admits from; nothing where it admits from none."""


@dataclass(frozen=True, slots=True)
class FlavorFacts:
    """A flavor of nodes in Kueue."""

    name: str
    labels: Mapping[str, str]
    """Labels that its nodes have."""
    topology: str = ""
    """The topology by which Kueue places pods on them; empty for none."""


@dataclass(frozen=True, slots=True)
class TopologyFacts:
    """A topology in Kueue."""

    name: str
    levels: tuple[str, ...]
    """Node labels, from the widest group to the narrowest."""


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """Something that an account may do, or may not."""

    verb: str
    resource: str
    """The resource, with its group behind a dot where it has one."""
    namespace: str = ""
    """The namespace; empty for the whole cluster."""


@dataclass(frozen=True, slots=True)
class AccessRefusal:
    """An object that the API server refused, asked without keeping it."""

    about: str
    """The object, as `PyTorchJob research/slim-7b`."""
    said: str


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """A cluster as the rules see it."""

    namespace: str
    """The namespace of the run, which can be seen even where no other can."""
    definitions: Mapping[str, tuple[str, ...]]
    """Served versions of kinds of others, by name, such as `pytorchjobs.kubeflow.org`."""
    kubernetes: str = ""
    """The version of the API server, such as `1.31`; empty where it is not known."""
    unseen: frozenset[Subject] = frozenset()
    """What could not be looked at."""
    only_here: frozenset[Subject] = frozenset()
    """What was looked at in the namespace of the run only."""
    grows: bool | None = False
    """Whether nodes come when pods wait for them; nothing where nobody could tell."""
    trainer_form: str = ""
    """The form of Trainer's API that is served, as a version; empty where it is not known."""
    namespaces: tuple[NamespaceFacts, ...] = ()
    controllers: tuple[Controller, ...] = ()
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
    """Keys of the config map by which pods install the worker; empty where it is not there, and
    nothing where it could not be looked at."""
    quotas: tuple[QuotaFacts, ...] = ()
    limits: tuple[LimitFacts, ...] = ()
    local_queues: tuple[LocalQueueFacts, ...] = ()
    cluster_queues: tuple[ClusterQueueFacts, ...] = ()
    flavors: tuple[FlavorFacts, ...] = ()
    """Flavors of nodes in Kueue."""
    topologies: tuple[TopologyFacts, ...] = ()
    denied: tuple[Right, ...] = ()
    """What launching takes and the account may not do."""
    refusals: tuple[AccessRefusal, ...] = ()
    """Objects of the run that the API server refuses."""
    taken: tuple[Finding, ...] = ()
    """Names of the run that objects of other owners have; a launch reports the same."""

    def sees(self, subject: Subject, namespace: str = "") -> bool:
        """Whether something was looked at, in that namespace where it has one."""
        if subject in self.unseen:
            return False
        return not namespace or subject not in self.only_here or namespace == self.namespace

    def serves(self, definition: str, version: str = "") -> bool:
        """Whether a kind is known, in that version where one is given."""
        versions = self.definitions.get(definition, ())
        return version in versions if version else bool(versions)
