# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Where pods go: kind of node, taints, spread, queue, gang, topology."""

from seatrial.rendering.context import Scene
from seatrial.rendering.manifest import Manifest, without_empty
from seatrial.rendering.names import Component, selector
from seatrial.spec.cluster import Operator

HOSTNAME = "kubernetes.io/hostname"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"
GANG_WAIT_SECONDS = 600
"""How long a gang scheduler holds the pods that it has placed while others are missing."""


def queue_labels(scene: Scene) -> dict[str, str]:
    """The label by which Kueue finds what it admits; all pods are admitted together or none.

    The job is not marked as suspended here: Kueue does that when the job is created, and a
    manifest that said so would stop a running job each time it is applied again.
    """
    queue = scene.plan.spec.cluster.queue
    return {} if queue is None else {QUEUE_LABEL: queue}


def topology_annotations(scene: Scene) -> dict[str, str]:
    """The annotation of pods by which Kueue places them near to each other."""
    topology = scene.plan.spec.cluster.topology
    if topology is None:
        return {}
    return {REQUIRED_TOPOLOGY if topology.required else PREFERRED_TOPOLOGY: topology.level}


def affinity(scene: Scene) -> Manifest:
    """The kind of node, the nodes to stay away from, one pod a node, and one zone."""
    pods: Manifest = {"matchLabels": selector(scene.plan, Component.TRAINING)}
    rules: Manifest = {}
    node_terms = node_affinity(scene)
    if node_terms:
        rules["nodeAffinity"] = node_terms
    if scene.plan.machines.nodes > 1:
        # HyperPod's nodes are of one zone, and its own models refuse a preference between pods.
        if scene.profile.zone_label and scene.plan.machines.operator is not Operator.HYPERPOD:
            near = {"topologyKey": scene.profile.zone_label, "labelSelector": pods}
            rules["podAffinity"] = {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 100, "podAffinityTerm": near}
                ]
            }
        if scene.share_of_node < 1:
            # Two pods of a run would fit on one node, and the plan counts on as many nodes as pods.
            apart = {"topologyKey": HOSTNAME, "labelSelector": pods}
            rules["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    return rules


def node_affinity(scene: Scene) -> Manifest:
    """The kind of node, and the nodes that failed an earlier attempt, by their names."""
    # A field takes one value, so that each node is a requirement of its own.
    excluded = [
        {"key": "metadata.name", "operator": "NotIn", "values": [name]}
        for name in scene.attempt.excluded_nodes
    ]
    wanted = dict(scene.profile.node_labels)
    if scene.profile.node_type_label:
        wanted = {scene.profile.node_type_label: scene.plan.machines.node_type} | wanted
    kind = [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()]
    term = without_empty({"matchExpressions": kind, "matchFields": excluded})
    if not term:
        return {}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


def tolerations(scene: Scene) -> list[Manifest]:
    """The taints of GPU nodes, from the profile."""
    return [
        without_empty(
            {
                "key": toleration.key,
                "operator": toleration.operator,
                "value": toleration.value,
                "effect": toleration.effect,
            }
        )
        for toleration in scene.profile.tolerations
    ]


def topology_spread(scene: Scene) -> list[Manifest]:
    """Pods of a run on different nodes, as evenly as there are nodes."""
    if scene.plan.machines.nodes == 1:
        return []
    return [
        {
            "maxSkew": 1,
            "topologyKey": HOSTNAME,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": selector(scene.plan, Component.TRAINING)},
        }
    ]
