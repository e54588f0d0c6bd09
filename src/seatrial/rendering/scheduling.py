# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Scheduling: node affinity, tolerations, spread, queue and topology."""

from collections.abc import Mapping

from seatrial.catalog.profiles import Toleration
from seatrial.rendering.context import Scene
from seatrial.rendering.manifest import Manifest, without_empty
from seatrial.rendering.names import Component, selector
from seatrial.spec.cluster import Operator
from seatrial.spec.pods import CpuNodes, TolerationSpec

HOSTNAME = "kubernetes.io/hostname"
ARCHITECTURE = "kubernetes.io/arch"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"
GANG_WAIT_SECONDS = 600
"""How long a gang scheduler keeps placed pods while others are missing."""


def queue_labels(scene: Scene) -> dict[str, str]:
    """Return the label for Kueue, which admits all pods together.

    The manifest does not suspend the job: Kueue does that at creation. A manifest that did so would
    stop a running job each time it is applied again.
    """
    return {QUEUE_LABEL: scene.queue} if scene.queue else {}


def topology_annotations(scene: Scene) -> dict[str, str]:
    """Return the pod annotation that makes Kueue place pods near each other."""
    topology = scene.plan.spec.cluster.topology
    if topology is None:
        return {}
    return {REQUIRED_TOPOLOGY if topology.required else PREFERRED_TOPOLOGY: topology.level}


def affinity(scene: Scene) -> Manifest:
    """Return the affinity: node type, excluded nodes, one pod per node, one zone."""
    pods: Manifest = {"matchLabels": selector(scene.plan, Component.TRAINING)}
    rules: Manifest = {}
    node_terms = node_affinity(scene)
    if node_terms:
        rules["nodeAffinity"] = node_terms
    if scene.plan.machines.nodes > 1:
        # HyperPod's nodes are in one zone, and its own models reject a preference between pods.
        if scene.profile.zone_label and scene.plan.machines.operator is not Operator.HYPERPOD:
            near = {"topologyKey": scene.profile.zone_label, "labelSelector": pods}
            rules["podAffinity"] = {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 100, "podAffinityTerm": near}
                ]
            }
        if scene.share_of_node < 1:
            # Otherwise two pods of a run could share a node, and the plan assumes one node per pod.
            apart = {"topologyKey": HOSTNAME, "labelSelector": pods}
            rules["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    return rules


def node_affinity(scene: Scene) -> Manifest:
    """Select the node type, and exclude nodes that failed in an earlier attempt."""
    # A field requirement takes one value, so each node needs its own.
    excluded = [
        {"key": "metadata.name", "operator": "NotIn", "values": [name]}
        for name in scene.attempt.excluded_nodes
    ]
    wanted = profile_labels(scene) | dict(scene.plan.spec.cluster.node_selector)
    term = without_empty({"matchExpressions": _having(wanted), "matchFields": excluded})
    if not term:
        return {}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


def profile_labels(scene: Scene) -> dict[str, str]:
    """Return the labels that the profile requires of training nodes, with the node type's."""
    label = scene.profile.node_type_label
    kind = {label: scene.plan.machines.node_type} if label else {}
    return kind | scene.profile.node_labels


def _having(labels: Mapping[str, str]) -> list[Manifest]:
    return [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]


def tolerations(scene: Scene) -> list[Manifest]:
    """Return the tolerations for the taints of training nodes."""
    return [_toleration(each) for each in tolerated(scene)]


def tolerated(scene: Scene) -> list[Toleration]:
    """Return the profile's and the spec's tolerations of training pods."""
    own = map(_from_spec, scene.plan.spec.cluster.tolerations)
    return [*scene.profile.tolerations, *own]


def cpu_tolerations(scene: Scene) -> list[Manifest]:
    """Return the tolerations of pods that need no GPU."""
    return [_toleration(each) for each in cpu_tolerated(scene)]


def cpu_tolerated(scene: Scene) -> list[Toleration]:
    """Return the profile's and the spec's tolerations of pods that need no GPU."""
    own = map(_from_spec, _cpu_nodes(scene).tolerations)
    return [*scene.profile.cpu_tolerations, *own]


def cpu_labels(scene: Scene) -> dict[str, str]:
    """Return the labels that nodes for such pods must have. Their images are for x86."""
    own = dict(_cpu_nodes(scene).node_selector)
    return {ARCHITECTURE: "amd64"} | scene.profile.cpu_node_labels | own


def _cpu_nodes(scene: Scene) -> CpuNodes:
    return scene.plan.spec.cluster.cpu_nodes or CpuNodes()


def _from_spec(given: TolerationSpec) -> Toleration:
    return Toleration(
        key=given.key,
        operator=given.comparison,
        value=given.value or "",
        effect=given.effect or "",
    )


def _toleration(toleration: Toleration) -> Manifest:
    return without_empty(
        {
            "key": toleration.key,
            "operator": toleration.operator,
            "value": toleration.value,
            "effect": toleration.effect,
        }
    )


def cpu_affinity(scene: Scene) -> Manifest:
    """Keep a pod that needs no GPU off the GPU nodes, which not every cluster taints."""
    wanted = cpu_labels(scene)
    terms = _having(wanted)
    label, gpu_types = scene.profile.node_type_label, list(scene.gpu_node_types)
    if label and label not in wanted and gpu_types:
        terms.append({"key": label, "operator": "NotIn", "values": gpu_types})
    required = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def topology_spread(scene: Scene) -> list[Manifest]:
    """Spread the pods of a run evenly over nodes."""
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
