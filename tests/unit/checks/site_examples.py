# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""For every code about clusters a cluster in which it fires, and one in which it is silent."""

from dataclasses import dataclass, replace
from typing import Any

from seatrial.checks.cluster.facts import (
    AccessRefusal,
    ClaimFacts,
    ClusterFacts,
    ClusterQueueFacts,
    Controller,
    FlavorFacts,
    LimitFacts,
    LocalQueueFacts,
    NamespaceFacts,
    NodeFacts,
    QuotaFacts,
    Right,
    SecretFacts,
    StorageClassFacts,
    Subject,
    Taint,
    TopologyFacts,
)
from seatrial.codes.cluster_checks import SiteCode
from seatrial.rendering.gang import POD_GROUPS

TIB = 1 << 40
NODE_TYPE = "Standard_ND96isr_H100_v5"
LABEL = "node.kubernetes.io/instance-type"
RACK = "example.com/rack"
OFFERED = {"cpu": 95.0, "memory": 1850.0 * (1 << 30), "nvidia.com/gpu": 8.0, "rdma/ib": 8.0}
NODES = NodeFacts(4, {LABEL: NODE_TYPE, RACK: "a"}, (Taint("sku", "gpu"),), OFFERED)
CLAIM = ClaimFacts("shared", "default", "Bound", ("ReadWriteMany",), 16 * TIB)
QUEUE = ClusterQueueFacts(
    "gpu",
    {"cpu": 800.0, "memory": 8.0 * TIB, "nvidia.com/gpu": 64.0, "rdma/ib": 64.0},
    flavors=("h100",),
)
HEALTHY = ClusterFacts(
    namespace="default",
    definitions={
        "pytorchjobs.kubeflow.org": ("v1",),
        "trainjobs.trainer.kubeflow.org": ("v1alpha1",),
        "localqueues.kueue.x-k8s.io": ("v1beta1",),
        "podmonitors.monitoring.coreos.com": ("v1",),
        "podgroups.scheduling.volcano.sh": ("v1beta1",),
        "jobsets.jobset.x-k8s.io": ("v1alpha2",),
    },
    kubernetes="1.31",
    trainer_form="2.2",
    namespaces=(NamespaceFacts("default"), NamespaceFacts("kubeflow")),
    controllers=(
        Controller("training-operator", "kubeflow", 1, 1),
        Controller("kubeflow-trainer-controller-manager", "kubeflow", 1, 1),
    ),
    daemons=(Controller("nvidia-dcgm-exporter", "gpu-operator", 4, 4),),
    nodes=(NODES,),
    claims=(CLAIM,),
    classes=(StorageClassFacts("seatrial-amlfs-125", "azurelustre.csi.azure.com"),),
    drivers=("azurelustre.csi.azure.com", "blob.csi.azure.com"),
    secrets=(
        SecretFacts("huggingface", "default", ("token",), "Opaque"),
        SecretFacts(
            "registry", "default", (".dockerconfigjson",), "kubernetes.io/dockerconfigjson"
        ),
    ),
    accounts=(("default", "default"), ("default", "training")),
    priorities=("system-cluster-critical", "training-high"),
    lock_keys=("worker.txt", "llm-foundry.txt"),
    local_queues=(LocalQueueFacts("research", "default", "gpu"),),
    cluster_queues=(QUEUE,),
    flavors=(FlavorFacts("h100", {}, "racks"),),
    topologies=(TopologyFacts("racks", (RACK,)),),
)
"""A cluster that has all that any of the examples asks for."""

IN_QUEUE = ("cluster.queue=research",)
ON_CLAIM = ("cluster.storage={claim: shared}",)
BY_RACK = (*IN_QUEUE, f"cluster.topology={{level: {RACK}}}")
RAW = "data.sources=[{from: /data/corpus, files: '*.jsonl'}]"
TOKEN = "cluster.secrets=[{secret: huggingface, key: token, env: HF_TOKEN}]"


@dataclass(frozen=True)
class SiteExample:
    """A run and the cluster in which one rule fires; the run and the healthy one keep it silent."""

    facts: ClusterFacts
    """The cluster in which it fires."""
    overrides: tuple[str, ...] = ()
    """What the run has otherwise than the base."""
    field: str = ""
    """The field that the finding stands at."""
    silent: tuple[str, ...] | None = None
    """Overrides with which it is silent in the healthy cluster; the same when absent."""


def but(**changes: Any) -> ClusterFacts:
    """The healthy cluster with something changed."""
    return replace(HEALTHY, **changes)


def without(*names: str) -> ClusterFacts:
    """The healthy cluster without some definitions."""
    return but(definitions={k: v for k, v in HEALTHY.definitions.items() if k not in names})


def with_versions(**versions: str) -> ClusterFacts:
    """The healthy cluster whose controllers have versions."""
    names = {
        "trainer": "kubeflow-trainer-controller-manager",
        "kueue": "kueue-controller-manager",
        "jobset": "jobset-controller",
        "training": "training-operator",
    }
    return but(
        controllers=tuple(
            Controller(names[each], "system", 1, 1, found) for each, found in versions.items()
        )
    )


def nodes(**changes: Any) -> ClusterFacts:
    """The healthy cluster with other nodes."""
    return but(nodes=(replace(NODES, **changes),))


def in_zone(name: str) -> dict[str, str]:
    """The labels of nodes in a zone."""
    return {**NODES.labels, "topology.kubernetes.io/zone": name}


def offering(resource: str, amount: float) -> ClusterFacts:
    """The healthy cluster whose nodes offer another amount of a resource."""
    return nodes(allocatable=OFFERED | {resource: amount})


def claim(**changes: Any) -> ClusterFacts:
    """The healthy cluster with another claim."""
    return but(claims=(replace(CLAIM, **changes),))


def queue(**changes: Any) -> ClusterFacts:
    """The healthy cluster with another cluster queue."""
    return but(cluster_queues=(replace(QUEUE, **changes),))


EXAMPLES: dict[str, SiteExample] = {
    SiteCode.NOT_SERVED: SiteExample(
        without("pytorchjobs.kubeflow.org"), ("cluster.operator=pytorchjob",), "cluster.operator"
    ),
    SiteCode.NOT_RUNNING: SiteExample(
        but(controllers=(Controller("training-operator", "kubeflow", 1, 0),)),
        field="cluster.operator",
    ),
    SiteCode.OTHER_FORM: SiteExample(
        but(trainer_form="2.1"),
        ("cluster.operator=trainjob", "cluster.operator_version='2.3'"),
        "cluster.operator_version",
    ),
    SiteCode.NO_KIND: SiteExample(
        without("podmonitors.monitoring.coreos.com"),
        ("monitoring.prometheus={enabled: true, pod_monitor: {}}",),
        "monitoring.prometheus.pod_monitor",
    ),
    SiteCode.NO_GANG: SiteExample(
        without("podgroups.scheduling.volcano.sh"), ("cluster.gang=volcano",), "cluster.gang"
    ),
    SiteCode.AUTO_GANG: SiteExample(
        without("localqueues.kueue.x-k8s.io", *POD_GROUPS.values()), field="cluster.gang"
    ),
    SiteCode.OLD_OPERATOR: SiteExample(
        but(controllers=(Controller("training-operator", "kubeflow", 1, 1, "1.6.0"),)),
        field="cluster.operator",
    ),
    SiteCode.NO_COMPONENT: SiteExample(
        without("jobsets.jobset.x-k8s.io"), ("cluster.operator=trainjob",), "cluster.operator"
    ),
    SiteCode.OTHER_VERSION: SiteExample(
        but(controllers=(Controller("training-operator", "kubeflow", 1, 1, "2.0.0"),)),
        field="cluster.operator",
    ),
    SiteCode.CONFLICT: SiteExample(
        with_versions(trainer="2.1.0", kueue="0.17.3"),
        (*IN_QUEUE, "cluster.operator=trainjob"),
        "cluster.operator",
    ),
    SiteCode.OLD_KUBERNETES: SiteExample(but(kubernetes="1.27"), (RAW,), "cluster.profile"),
    SiteCode.NO_QUEUE: SiteExample(but(local_queues=()), IN_QUEUE, "cluster.queue"),
    SiteCode.SMALL_QUEUE: SiteExample(
        queue(quota={**QUEUE.quota, "nvidia.com/gpu": 8.0}), IN_QUEUE, "cluster.queue"
    ),
    SiteCode.UNCOVERED: SiteExample(
        queue(quota={k: v for k, v in QUEUE.quota.items() if k != "rdma/ib"}),
        IN_QUEUE,
        "cluster.queue",
    ),
    SiteCode.STOPPED_QUEUE: SiteExample(queue(stopped=True), IN_QUEUE, "cluster.queue"),
    SiteCode.TOPOLOGY: SiteExample(
        nodes(labels={LABEL: NODE_TYPE}), BY_RACK, "cluster.topology.level"
    ),
    SiteCode.NO_NODES: SiteExample(
        nodes(labels={LABEL: "Standard_ND96isr_H200_v5"}), field="cluster.node_type"
    ),
    SiteCode.FEW_NODES: SiteExample(nodes(count=1), field="cluster.nodes"),
    SiteCode.TAINTED: SiteExample(
        nodes(taints=(Taint("team", "vision"),)), field="cluster.node_type"
    ),
    SiteCode.UNFIT_NODES: SiteExample(nodes(ready=False), field="cluster.nodes"),
    SiteCode.NO_DEVICES: SiteExample(offering("nvidia.com/gpu", 0.0), field="cluster.node_type"),
    SiteCode.NO_FABRIC: SiteExample(offering("rdma/ib", 0.0), field="cluster.fabric"),
    SiteCode.SMALL_NODES: SiteExample(offering("cpu", 16.0), field="cluster.node_type"),
    SiteCode.PREPARATION: SiteExample(
        HEALTHY,
        (RAW, "cluster.preparation={cpus: 96}"),
        "cluster.preparation.cpus",
        (RAW, "cluster.preparation={cpus: 95}"),
    ),
    SiteCode.FAR_APART: SiteExample(
        but(nodes=tuple(replace(NODES, count=1, labels=in_zone(name)) for name in "ab")),
        field="cluster.nodes",
    ),
    SiteCode.NO_CLAIM: SiteExample(claim(namespace="kubeflow"), ON_CLAIM, "cluster.storage.claim"),
    SiteCode.ACCESS_MODE: SiteExample(
        claim(access_modes=("ReadWriteOnce",)), ON_CLAIM, "cluster.storage.claim"
    ),
    SiteCode.NOT_BOUND: SiteExample(claim(phase="Pending"), ON_CLAIM, "cluster.storage.claim"),
    SiteCode.SMALL_CLAIM: SiteExample(claim(free=60 << 30), ON_CLAIM, "cluster.storage.claim"),
    SiteCode.NO_DRIVER: SiteExample(
        but(drivers=("blob.csi.azure.com",)), field="cluster.storage.tier"
    ),
    SiteCode.NO_CLASS: SiteExample(but(classes=()), field="cluster.storage.tier"),
    SiteCode.OTHER_CLAIM: SiteExample(
        claim(name="example", storage_class="disk"), field="cluster.storage"
    ),
    SiteCode.NO_NAMESPACE: SiteExample(
        but(namespaces=(NamespaceFacts("kubeflow"),)), field="cluster.namespace"
    ),
    SiteCode.POD_SECURITY: SiteExample(
        but(namespaces=(NamespaceFacts("default", "baseline"),)), field="cluster.namespace"
    ),
    SiteCode.QUOTA: SiteExample(
        but(quotas=(QuotaFacts("gpus", "default", {"requests.nvidia.com/gpu": 8.0}),)),
        field="cluster.nodes",
    ),
    SiteCode.LIMITS: SiteExample(
        but(limits=(LimitFacts("most", "default", {"cpu": 16.0}),)), field="cluster.namespace"
    ),
    SiteCode.NO_ACCOUNT: SiteExample(
        but(accounts=(("default", "default"),)),
        ("cluster.service_account=training",),
        "cluster.service_account",
    ),
    SiteCode.NO_PRIORITY: SiteExample(
        but(priorities=()), ("cluster.priority_class=training-high",), "cluster.priority_class"
    ),
    SiteCode.NO_LOCK: SiteExample(but(lock_keys=("llm-foundry.txt",)), (), "cluster.image"),
    SiteCode.NO_SECRET: SiteExample(but(secrets=()), (TOKEN,), "cluster.secrets[0].secret"),
    SiteCode.NO_KEY: SiteExample(
        but(secrets=(SecretFacts("huggingface", "default", ("HF_TOKEN",)),)),
        (TOKEN,),
        "cluster.secrets[0].key",
    ),
    SiteCode.NO_PULL_SECRET: SiteExample(
        but(secrets=HEALTHY.secrets[:1]),
        ("cluster.image_pull_secret=registry",),
        "cluster.image_pull_secret",
    ),
    SiteCode.RIGHTS: SiteExample(
        but(denied=(Right("create", "pytorchjobs.kubeflow.org", "default"),)),
        field="cluster.namespace",
    ),
    SiteCode.OBJECT_REFUSED: SiteExample(
        but(refusals=(AccessRefusal("PyTorchJob default/example", "spec: unknown field"),)),
        field="PyTorchJob default/example",
    ),
    SiteCode.UNSEEN: SiteExample(but(unseen=frozenset({Subject.NODES}), nodes=()), field="cluster"),
}
