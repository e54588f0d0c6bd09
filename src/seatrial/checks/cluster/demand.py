# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the pods of a run ask of a cluster, as they are rendered."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

from seatrial.checks.cluster.facts import NOTHING, ClusterFacts, NodeFacts, Taint, numbers
from seatrial.checks.rule import Situation
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.context import Scene, scene_of
from seatrial.rendering.resources import training_resources


@dataclass(frozen=True, slots=True)
class Demand:
    """What a run asks for."""

    scene: Scene
    """The plan with the facts around it."""
    pods: int
    """Training pods: one a node."""
    of_pod: Mapping[str, float]
    """What each asks for."""

    @property
    def in_all(self) -> Mapping[str, float]:
        """What all of them ask for."""
        return {name: self.pods * amount for name, amount in self.of_pod.items()}

    @property
    def gpu(self) -> str:
        """The resource of a GPU; empty where the run has none."""
        name = self.scene.profile.gpu_resource
        return name if name in self.of_pod else ""

    @property
    def fabric(self) -> str:
        """The resource of the network's devices; empty where pods ask for none."""
        name = self.scene.node.fabric_resource or ""
        return name if name in self.of_pod else ""


def demand_of(situation: Situation) -> Demand:
    """What the run asks for."""
    scene = scene_of(situation.plan, situation.catalog, Attempt())
    wanted = numbers(training_resources(scene)["requests"])
    return Demand(scene, situation.plan.machines.nodes, wanted)


def cluster_of(situation: Situation) -> ClusterFacts:
    """The facts of the cluster; rules of it are applied only where there are some."""
    if situation.cluster is None:
        raise ValueError("a rule of the cluster was applied without one")
    return situation.cluster


def namespace_of(situation: Situation) -> str:
    """The namespace of the run."""
    return situation.spec.cluster.namespace


def of_the_type(situation: Situation) -> list[NodeFacts]:
    """The nodes of the run's type."""
    demand = demand_of(situation)
    label, wanted = demand.scene.profile.node_type_label, situation.plan.machines.node_type
    nodes = cluster_of(situation).nodes
    return [n for n in nodes if not label or n.labels.get(label) == wanted]


def open_taints(situation: Situation, node: NodeFacts) -> list[Taint]:
    """The taints of a node that keep the run's pods away."""
    tolerated = demand_of(situation).scene.profile.tolerations
    return [
        taint
        for taint in node.taints
        if taint.effect != "PreferNoSchedule"
        and not any(
            each.key in ("", taint.key)
            and each.effect in ("", taint.effect)
            and (each.operator == "Exists" or each.value == taint.value)
            for each in tolerated
        )
    ]


def lacks(have: Mapping[str, float], wanted: Mapping[str, float] = NOTHING) -> list[str]:
    """The resources of which there is less than is wanted."""
    return [name for name, amount in wanted.items() if have.get(name, 0.0) < amount]


def nearest(name: str, others: Iterable[str]) -> str:
    """The name that is most like another; empty where there is none."""
    return max(others, key=lambda other: SequenceMatcher(None, other, name).ratio(), default="")


def shown(resource: str, amount: float) -> str:
    """An amount of a resource for people."""
    for kind in ("memory", "storage"):
        if resource.endswith(kind):
            return f"{amount / (1 << 30):,.0f} GiB of {kind}"
    return f"{amount:,.0f} {resource}"
