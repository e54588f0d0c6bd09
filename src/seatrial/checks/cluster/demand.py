# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The resources that the rendered pods of a run request."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from seatrial.catalog.profiles import Toleration
from seatrial.checks.cluster.facts import NOTHING, ClusterFacts, NodeFacts, Taint, numbers
from seatrial.checks.rule import Situation
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.context import Scene, scene_of
from seatrial.rendering.resources import fabric_resource, training_resources
from seatrial.rendering.scheduling import ARCHITECTURE, cpu_labels, cpu_tolerated, tolerated


@dataclass(frozen=True, slots=True)
class Demand:
    """The resource requests of a run."""

    scene: Scene
    """The plan with its catalog entries."""
    pods: int
    """Training pods, one for each node."""
    of_pod: Mapping[str, float]
    """The resource requests of each pod."""

    @property
    def in_all(self) -> Mapping[str, float]:
        """The resource requests of all pods together."""
        return {name: self.pods * amount for name, amount in self.of_pod.items()}

    @property
    def gpu(self) -> str:
        """The GPU resource name; empty for a run without GPUs."""
        name = self.scene.profile.gpu_resource
        return name if name in self.of_pod else ""

    @property
    def fabric(self) -> str:
        """The resource name of the network devices; empty if pods request none."""
        name = fabric_resource(self.scene)
        return name if name in self.of_pod else ""


def demand_of(situation: Situation) -> Demand:
    """Return the resource requests of the run."""
    scene = scene_of(situation.plan, situation.catalog, Attempt())
    wanted = numbers(training_resources(scene)["requests"])
    return Demand(scene, situation.plan.machines.nodes, wanted)


def cluster_of(situation: Situation) -> ClusterFacts:
    """Return the facts about the cluster, which every cluster rule needs."""
    if situation.cluster is None:
        raise ValueError("a cluster rule needs facts about a cluster")
    return situation.cluster


def namespace_of(situation: Situation) -> str:
    """Return the namespace of the run."""
    return situation.spec.cluster.namespace


def of_the_type(situation: Situation) -> list[NodeFacts]:
    """Return the nodes of the run's node type; without a label for it, the nodes with GPUs."""
    demand = demand_of(situation)
    label, wanted = demand.scene.profile.node_type_label, situation.plan.machines.node_type
    nodes = cluster_of(situation).nodes
    if not label:
        return [n for n in nodes if not demand.gpu or n.allocatable.get(demand.gpu)]
    return [n for n in nodes if n.labels.get(label) == wanted]


def open_taints(situation: Situation, node: NodeFacts) -> list[Taint]:
    """Return the taints on a node that the training pods do not tolerate."""
    return _untolerated(node, tolerated(demand_of(situation).scene))


def takes_cpu_pods(situation: Situation, node: NodeFacts) -> bool:
    """True if a node accepts pods without GPUs, by its labels and taints."""
    scene = demand_of(situation).scene
    label = scene.profile.node_type_label
    wanted = cpu_labels(scene)
    if node.labels.get(ARCHITECTURE) is None:
        wanted.pop(ARCHITECTURE)
    if label not in wanted and node.labels.get(label) in scene.gpu_node_types:
        return False
    fits = wanted.items() <= node.labels.items()
    return fits and not _untolerated(node, cpu_tolerated(scene))


def _untolerated(node: NodeFacts, matching: Sequence[Toleration]) -> list[Taint]:
    return [
        taint
        for taint in node.taints
        if taint.effect != "PreferNoSchedule"
        and not any(
            each.key in ("", taint.key)
            and each.effect in ("", taint.effect)
            and (each.operator == "Exists" or each.value == taint.value)
            for each in matching
        )
    ]


def lacks(have: Mapping[str, float], wanted: Mapping[str, float] = NOTHING) -> list[str]:
    """Return the resources of which there are not enough."""
    return [name for name, amount in wanted.items() if have.get(name, 0.0) < amount]


def nearest(name: str, others: Iterable[str]) -> str:
    """Return the most similar name; "" if there are no names."""
    return max(others, key=lambda other: SequenceMatcher(None, other, name).ratio(), default="")


def shown(resource: str, amount: float) -> str:
    """Format an amount of a resource."""
    for kind in ("memory", "storage"):
        if resource.endswith(kind):
            return f"{amount / (1 << 30):,.0f} GiB of {kind}"
    return f"{amount:,.0f} {resource}"
