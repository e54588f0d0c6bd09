# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A cluster that has all that a run needs, and ways to spoil it one at a time."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from seatrial.codes.cluster_checks import SiteCode
from seatrial.rendering.manifest import Manifest, manifest
from seatrial.rendering.volumes import LOCK_CONFIG
from tests.cluster.http_api import Api

NODE_TYPE = "Standard_ND96isr_H100_v5"
KUEUE = "kueue.x-k8s.io/v1beta1"
OFFERED = {"cpu": "95", "memory": "1850Gi", "pods": "110", "nvidia.com/gpu": "8", "rdma/ib": "8"}
MERGE = "application/merge-patch+json"
HOLDS = {"cpu": "800", "memory": "8Ti", "nvidia.com/gpu": "64", "rdma/ib": "64"}


def overrides_in(namespace: str) -> tuple[str, ...]:
    """A run of two nodes that names everything which a cluster can lack."""
    return (
        f"cluster.namespace={namespace}",
        "cluster.storage={claim: shared}",
        "cluster.queue=research",
        "cluster.service_account=training",
        "cluster.priority_class=training-high",
        "cluster.image_pull_secret=registry",
        "cluster.secrets=[{secret: huggingface, key: token, env: HF_TOKEN}]",
    )


def make_cluster(api: Api) -> None:
    """What belongs to no namespace, and the operator's deployment."""
    for number in (1, 2):
        accepted(api.create(_node(f"gpu-{number}")))
    accepted(api.apply(manifest("v1", "Namespace", {"name": "kubeflow"})))
    accepted(api.apply(_operator()))
    set_status(api, _operator(), _running(1))
    accepted(api.apply(_exporter()))
    priority = manifest("scheduling.k8s.io/v1", "PriorityClass", {"name": "training-high"})
    accepted(api.apply(priority | {"value": 1000}))
    accepted(api.apply(manifest(KUEUE, "ResourceFlavor", {"name": "h100"}, spec={})))
    accepted(api.apply(cluster_queue("gpu", HOLDS)))


def make_namespace(api: Api, name: str) -> None:
    """A namespace with claim, queue, account, secrets and what pods install the worker by."""
    accepted(api.apply(manifest("v1", "Namespace", {"name": name})))
    accepted(api.apply(manifest("v1", "ServiceAccount", inside(name, "training"))))
    accepted(api.apply(_secret(name, "huggingface", "Opaque", {"token": "eA=="})))
    kind = "kubernetes.io/dockerconfigjson"
    accepted(api.apply(_secret(name, "registry", kind, {".dockerconfigjson": "e30="})))
    lock = manifest("v1", "ConfigMap", inside(name, LOCK_CONFIG), data={"worker.txt": "torch"})
    accepted(api.apply(lock))
    accepted(api.apply(claim(name)))
    set_status(api, claim(name), bound())
    queue = manifest(KUEUE, "LocalQueue", inside(name, "research"), spec={"clusterQueue": "gpu"})
    accepted(api.apply(queue))


def inside(namespace: str, name: str) -> Manifest:
    """The metadata of an object in a namespace."""
    return {"name": name, "namespace": namespace}


def claim(namespace: str, mode: str = "ReadWriteMany") -> Manifest:
    """The claim that the run names."""
    spec = {"accessModes": [mode], "resources": {"requests": {"storage": "16Ti"}}}
    return manifest("v1", "PersistentVolumeClaim", inside(namespace, "shared"), spec=spec)


def bound(mode: str = "ReadWriteMany") -> Manifest:
    """The status of a claim that has its volume."""
    return {"phase": "Bound", "accessModes": [mode], "capacity": {"storage": "16Ti"}}


def cluster_queue(name: str, holds: Mapping[str, str], **parts: Any) -> Manifest:
    """A queue of the cluster that holds so much."""
    resources = [{"name": key, "nominalQuota": value} for key, value in holds.items()]
    group = {"coveredResources": list(holds), "flavors": [{"name": "h100", "resources": resources}]}
    spec = {"namespaceSelector": {}, "resourceGroups": [group], **parts}
    return manifest(KUEUE, "ClusterQueue", {"name": name}, spec=spec)


def _node(name: str) -> Manifest:
    labels = {"node.kubernetes.io/instance-type": NODE_TYPE}
    made = manifest("v1", "Node", {"name": name, "labels": labels}, spec={})
    ready = {"type": "Ready", "status": "True"}
    return made | {"status": {"allocatable": OFFERED, "capacity": OFFERED, "conditions": [ready]}}


def _operator() -> Manifest:
    spec = {"replicas": 1, **_pods("training-operator")}
    return manifest("apps/v1", "Deployment", inside("kubeflow", "training-operator"), spec=spec)


def _exporter() -> Manifest:
    name = "nvidia-dcgm-exporter"
    return manifest("apps/v1", "DaemonSet", inside("kubeflow", name), spec=_pods(name))


def _pods(name: str) -> Manifest:
    labels = {"app": name}
    pod = {"containers": [{"name": "main", "image": f"example.com/{name}:1"}]}
    return {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }


def _running(ready: int) -> Manifest:
    return {
        "replicas": 1,
        "updatedReplicas": 1,
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": 1 - ready,
    }


def _secret(namespace: str, name: str, kind: str, data: Mapping[str, str]) -> Manifest:
    return manifest("v1", "Secret", inside(namespace, name)) | {"type": kind, "data": dict(data)}


def accepted(answer: Any) -> None:
    """Refuse to go on where the server refused."""
    if not answer.accepted:
        raise RuntimeError(answer.message)


def set_status(api: Api, item: Manifest, status: Manifest) -> None:
    """Write a status as a controller would."""
    place = f"{api.path(item, named=True)}/status"
    accepted(api.ask("PATCH", place, {"status": status}, None, MERGE))


def changed(api: Api, kind: Manifest, change: Manifest, part: str = "") -> None:
    """Change a part of an object."""
    place = api.path(kind, named=True) + (f"/{part}" if part else "")
    accepted(api.ask("PATCH", place, change, None, MERGE))


Spoil = Callable[[Api, str], None]


@dataclass(frozen=True, slots=True)
class Broken:
    """A cluster with one thing wrong."""

    name: str
    """What is wrong."""
    code: SiteCode
    """The code that tells it."""
    spoil: Spoil | None = None
    """What is done to the namespace, which is thrown away afterwards."""
    everywhere: Callable[[Api], Any] | None = None
    """What is done to the cluster, as a context that undoes it."""
    overrides: tuple[str, ...] = ()
    """What the run asks for otherwise."""


def _gone(kind: str, version: str, name: str) -> Spoil:
    def spoil(api: Api, namespace: str) -> None:
        place = api.path(manifest(version, kind, inside(namespace, name)), named=True)
        accepted(api.ask("DELETE", place, {"gracePeriodSeconds": 0}))
        found = api.ask("GET", place)
        if found.accepted and found.body["metadata"].get("finalizers"):
            accepted(api.ask("PATCH", place, {"metadata": {"finalizers": None}}, None, MERGE))

    return spoil


def _other_claim(mode: str, status: Manifest) -> Spoil:
    def spoil(api: Api, namespace: str) -> None:
        _gone("PersistentVolumeClaim", "v1", "shared")(api, namespace)
        accepted(api.apply(claim(namespace, mode)))
        if status:
            set_status(api, claim(namespace), status)

    return spoil


def _added(version: str, kind: str, name: str, spec: Manifest) -> Spoil:
    def spoil(api: Api, namespace: str) -> None:
        accepted(api.apply(manifest(version, kind, inside(namespace, name), spec=spec)))

    return spoil


def _other_secret(name: str, kind: str, data: Mapping[str, str]) -> Spoil:
    def spoil(api: Api, namespace: str) -> None:
        _gone("Secret", "v1", name)(api, namespace)
        accepted(api.apply(_secret(namespace, name, kind, data)))

    return spoil


def _restricted(api: Api, namespace: str) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    accepted(api.apply(manifest("v1", "Namespace", {"name": namespace, "labels": labels})))


def _quota(namespace_hard: Mapping[str, str]) -> Spoil:
    return _added("v1", "ResourceQuota", "gpus", {"hard": dict(namespace_hard)})


@contextmanager
def _nodes(api: Api, change: Manifest, back: Manifest, part: str = "") -> Iterator[None]:
    """Nodes that are otherwise for a while."""
    both = [_node(f"gpu-{number}") for number in (1, 2)]
    for each in both:
        changed(api, each, change, part)
    yield
    for each in both:
        changed(api, each, back, part)


@contextmanager
def _operator_down(api: Api) -> Iterator[None]:
    set_status(api, _operator(), _running(0))
    yield
    set_status(api, _operator(), _running(1))


@contextmanager
def _made(api: Api, *items: Manifest) -> Iterator[None]:
    for item in items:
        accepted(api.apply(item))
    yield
    for item in items:
        accepted(api.ask("DELETE", api.path(item, named=True)))


@contextmanager
def _queue(api: Api, other: Manifest) -> Iterator[None]:
    accepted(api.apply(other))
    yield
    accepted(api.apply(cluster_queue("gpu", HOLDS, stopPolicy="None")))


def _deaf_webhook() -> Manifest:
    rule = {
        "apiGroups": ["kubeflow.org"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pytorchjobs"],
    }
    hook = {
        "name": "validator.pytorchjob.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/validate"},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "timeoutSeconds": 1,
    }
    kind = "ValidatingWebhookConfiguration"
    made = manifest("admissionregistration.k8s.io/v1", kind, {"name": "deaf"})
    return made | {"webhooks": [hook]}


_TAINT = {"key": "team", "value": "vision", "effect": "NoSchedule"}
BROKEN = (
    Broken("no namespace", SiteCode.NO_NAMESPACE, overrides=("cluster.namespace=nowhere",)),
    Broken("no claim", SiteCode.NO_CLAIM, _gone("PersistentVolumeClaim", "v1", "shared")),
    Broken(
        "a claim for one node",
        SiteCode.ACCESS_MODE,
        _other_claim("ReadWriteOnce", bound("ReadWriteOnce")),
    ),
    Broken("a claim without a volume", SiteCode.NOT_BOUND, _other_claim("ReadWriteMany", {})),
    Broken(
        "a small volume",
        SiteCode.SMALL_CLAIM,
        _other_claim("ReadWriteMany", bound() | {"capacity": {"storage": "50Gi"}}),
    ),
    Broken("a small quota", SiteCode.QUOTA, _quota({"requests.nvidia.com/gpu": "8"})),
    Broken(
        "a small limit",
        SiteCode.LIMITS,
        _added(
            "v1", "LimitRange", "most", {"limits": [{"type": "Container", "max": {"cpu": "4"}}]}
        ),
    ),
    Broken("restricted pods", SiteCode.POD_SECURITY, _restricted),
    Broken("no account", SiteCode.NO_ACCOUNT, _gone("ServiceAccount", "v1", "training")),
    Broken("no secret", SiteCode.NO_SECRET, _gone("Secret", "v1", "huggingface")),
    Broken("no key", SiteCode.NO_KEY, _other_secret("huggingface", "Opaque", {"HF_TOKEN": "eA=="})),
    Broken(
        "a pull secret that is none",
        SiteCode.NO_PULL_SECRET,
        _other_secret("registry", "Opaque", {"password": "eA=="}),
    ),
    Broken("no list of the worker", SiteCode.NO_LOCK, _gone("ConfigMap", "v1", LOCK_CONFIG)),
    Broken("no queue", SiteCode.NO_QUEUE, _gone("LocalQueue", KUEUE, "research")),
    Broken(
        "a small queue",
        SiteCode.SMALL_QUEUE,
        everywhere=lambda api: _queue(api, cluster_queue("gpu", HOLDS | {"nvidia.com/gpu": "8"})),
    ),
    Broken(
        "a queue without the fabric",
        SiteCode.UNCOVERED,
        everywhere=lambda api: _queue(
            api, cluster_queue("gpu", {k: v for k, v in HOLDS.items() if k != "rdma/ib"})
        ),
    ),
    Broken(
        "a stopped queue",
        SiteCode.STOPPED_QUEUE,
        everywhere=lambda api: _queue(api, cluster_queue("gpu", HOLDS, stopPolicy="Hold")),
    ),
    Broken(
        "nodes of another team",
        SiteCode.TAINTED,
        everywhere=lambda api: _nodes(
            api, {"spec": {"taints": [_TAINT]}}, {"spec": {"taints": None}}
        ),
    ),
    Broken(
        "cordoned nodes",
        SiteCode.UNFIT_NODES,
        everywhere=lambda api: _nodes(
            api, {"spec": {"unschedulable": True}}, {"spec": {"unschedulable": None}}
        ),
    ),
    Broken(
        "nodes without their GPUs",
        SiteCode.NO_DEVICES,
        everywhere=lambda api: _nodes(
            api,
            {"status": {"allocatable": {"nvidia.com/gpu": None}}},
            {"status": {"allocatable": {"nvidia.com/gpu": "8"}}},
            "status",
        ),
    ),
    Broken(
        "nodes without their network",
        SiteCode.NO_FABRIC,
        everywhere=lambda api: _nodes(
            api,
            {"status": {"allocatable": {"rdma/ib": None}}},
            {"status": {"allocatable": {"rdma/ib": "8"}}},
            "status",
        ),
    ),
    Broken("too few nodes", SiteCode.FEW_NODES, overrides=("cluster.nodes=4",)),
    Broken(
        "no node of the type",
        SiteCode.NO_NODES,
        overrides=("cluster.node_type=Standard_ND96isr_H200_v5",),
    ),
    Broken(
        "no priority class", SiteCode.NO_PRIORITY, overrides=("cluster.priority_class=highest",)
    ),
    Broken(
        "no driver",
        SiteCode.NO_DRIVER,
        overrides=("cluster.storage={tier: amlfs-125, capacity: 16Ti}",),
    ),
    Broken(
        "no gang scheduler",
        SiteCode.NO_GANG,
        overrides=("cluster.queue=null", "cluster.gang=volcano"),
    ),
    Broken("an operator that is down", SiteCode.NOT_RUNNING, everywhere=_operator_down),
    Broken(
        "a webhook that does not answer",
        SiteCode.NOT_RUNNING,
        everywhere=lambda api: _made(api, _deaf_webhook()),
    ),
    Broken(
        "another form of Trainer",
        SiteCode.OTHER_FORM,
        overrides=("cluster.operator=trainjob", "cluster.operator_version='2.0'"),
    ),
)
"""Clusters with one thing wrong."""
