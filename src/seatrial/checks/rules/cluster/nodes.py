# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about nodes: idle GPUs and, in a cluster, the number, taints, health and resources."""

from collections import Counter
from collections.abc import Iterator
from math import floor

from seatrial.checks.cluster.demand import (
    cluster_of,
    demand_of,
    lacks,
    of_the_type,
    open_taints,
    shown,
    takes_cpu_pods,
)
from seatrial.checks.cluster.facts import NodeFacts, Subject
from seatrial.checks.rule import Checked, Situation, of_cluster, proposed, static
from seatrial.checks.rules.cluster.components import site_command
from seatrial.codes.checks import CheckCode
from seatrial.codes.cluster_checks import SiteCode
from seatrial.planning.memory.estimate import host_memory
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.context import scene_of
from seatrial.rendering.resources import GIB, memory_gib
from seatrial.rendering.scheduling import profile_labels

FIELD = "cluster.node_type"
PLUGINS = {
    "vpc.amazonaws.com/efa": "the EFA device plugin",
    "nvidia.com/gpu": "NVIDIA's device plugin or GPU operator",
    "rdma/": "an RDMA device plugin (NVIDIA's network operator)",
}
"""The component that advertises a resource on a node."""
ROOM_USED = 0.9
"""Fraction of a pod's memory that a proposal fills: the processes need some too."""


def _growth(situation: Situation) -> str:
    """Describe whether the cluster adds nodes; "" if it does not."""
    grows = cluster_of(situation).grows
    unknown = "this account cannot see whether the cluster has an autoscaler"
    return "the cluster has an autoscaler" if grows else unknown if grows is None else ""


def _plugin(resource: str) -> str:
    """Return the component that advertises a resource on a node."""
    known = (text for name, text in PLUGINS.items() if resource.startswith(name))
    return next(known, f"the device plugin for {resource}")


def _nodes(situation: Situation) -> list[NodeFacts]:
    """Return the nodes of the run's node type; empty if the account cannot list nodes."""
    return of_the_type(situation) if cluster_of(situation).sees(Subject.NODES) else []


def _count(nodes: list[NodeFacts]) -> int:
    return sum(node.count for node in nodes)


def offloaded(situation: Situation) -> Iterator[Checked]:
    """Report offloaded tensors that do not fit into the memory of a pod."""
    chosen, machines = situation.run.chosen, situation.plan.machines
    if chosen is None or not situation.in_pods:
        return
    need = host_memory(chosen.workload) * machines.processes_per_node / GIB
    room = memory_gib(scene_of(situation.plan, situation.catalog, Attempt()))
    if need <= room:
        return
    asked, options = situation.spec.performance, chosen.workload.options
    name = "optimizer_offload" if options and options.optimizer_offload else "activation_offload"
    value = getattr(asked, name)
    less = value * room / need * ROOM_USED
    fitting = f"{floor(20 * less) / 20:g}" if name == "optimizer_offload" else f"{floor(less)}"
    yield situation.error(
        CheckCode.HOST_MEMORY,
        f"performance.{name}",
        f"the {machines.processes_per_node} GPUs of a node offload {need:,.0f} GiB, but a pod on "
        f"{machines.node_type} has {room:,} GiB of memory.",
        f"Use {fitting} or less, more nodes, or a node type with more memory.",
        value,
        proposed(f"performance.{name}={fitting}"),
    )


def idle_gpus(situation: Situation) -> Iterator[Checked]:
    """Report fewer processes than GPUs on a node."""
    machines = situation.plan.machines
    gpus = situation.catalog.node_type(machines.node_type).gpus
    used = machines.processes_per_node
    # Using part of a single node can be intended; with several nodes it hardly ever is.
    if used < gpus and (machines.nodes > 1 or used == 1):
        yield situation.warning(
            CheckCode.IDLE_GPUS,
            "cluster.processes_per_node",
            f"the run uses {used} of the {gpus} GPUs of each {machines.node_type}; you pay for the "
            "others while they are idle.",
            f"Use {gpus}, or a smaller node type.",
            used,
            proposed(f"cluster.processes_per_node={gpus}"),
        )


def no_nodes(situation: Situation) -> Iterator[Checked]:
    """Report a node type that the cluster does not have."""
    facts = cluster_of(situation)
    if not facts.sees(Subject.NODES) or _nodes(situation):
        return
    demand, wanted = demand_of(situation), situation.plan.machines.node_type
    label = demand.scene.profile.node_type_label
    types = Counter[str]()
    for node in facts.nodes:
        if label in node.labels and (not demand.gpu or node.allocatable.get(demand.gpu)):
            types[node.labels[label]] += node.count
    known = [name for name, _ in types.most_common() if name in demand.scene.profile.node_types]
    there = ", ".join(f"{count:,} {name}" for name, count in types.most_common()) or "none"
    what = "with GPUs " if demand.gpu else ""
    rule = f"no node has the label {label}={wanted}; nodes {what}in the cluster: {there}"
    if not label:
        rule = f"no node offers {demand.gpu or 'CPUs'}"
    growth = _growth(situation)
    if growth:
        yield situation.warning(
            SiteCode.NO_NODES,
            FIELD,
            f"{rule}; {growth}.",
            "Check that one of the node pools in the cluster has this node type.",
            wanted,
        )
        return
    rule += "."
    fix = f"Use {known[0]}, or add nodes." if known else "Add nodes of this type."
    if not label and demand.gpu:
        fix = f"Add nodes with GPUs, and install {_plugin(demand.gpu)} on them."
    by = [f"{FIELD}={known[0]}"] if known else []
    yield situation.error(SiteCode.NO_NODES, FIELD, rule, fix, wanted, proposed(*by))


def few_nodes(situation: Situation) -> Iterator[Checked]:
    """Report fewer nodes of the run's node type than the run needs."""
    nodes, wanted = _nodes(situation), situation.plan.machines.nodes
    there = _count(nodes)
    if not nodes or there >= wanted:
        return
    kind = situation.plan.machines.node_type
    rule = f"the run needs {wanted:,} {kind} nodes, but the cluster has {there:,}"
    growth = _growth(situation)
    if growth:
        yield situation.warning(
            SiteCode.FEW_NODES,
            "cluster.nodes",
            f"{rule} now; {growth}.",
            f"Check that the node pool can grow to {wanted:,} nodes.",
            wanted,
        )
        return
    yield situation.error(
        SiteCode.FEW_NODES,
        "cluster.nodes",
        f"{rule}: some pods would start and occupy GPUs while they wait for the others.",
        f"Use {there}, or add nodes.",
        wanted,
        proposed(f"cluster.nodes={there}"),
    )


def tainted(situation: Situation) -> Iterator[Checked]:
    """Report nodes with taints that the run's pods do not tolerate."""
    nodes, wanted = _nodes(situation), situation.plan.machines.nodes
    closed = [node for node in nodes if open_taints(situation, node)]
    left = _count(nodes) - _count(closed)
    if not closed or left >= wanted or _count(nodes) < wanted:
        return
    taints = {str(taint) for node in closed for taint in open_taints(situation, node)}
    yield situation.error(
        SiteCode.TAINTED,
        FIELD,
        f"{_count(closed):,} of {_count(nodes):,} {situation.plan.machines.node_type} nodes have "
        f"the taint {', '.join(sorted(taints))}, which the pods do not tolerate; {left:,} nodes "
        f"remain for {wanted:,} pods.",
        "Ask an administrator for nodes without the taint. If the run may use the tainted nodes, "
        "add the taint to cluster.tolerations.",
        ", ".join(sorted(taints)),
    )


def unfit(situation: Situation) -> Iterator[Checked]:
    """Report nodes that are not ready, are cordoned, or lack labels that the pods require."""
    nodes, wanted = _nodes(situation), situation.plan.machines.nodes
    marks = profile_labels(demand_of(situation).scene) | dict(situation.spec.cluster.node_selector)
    closed = [node for node in nodes if not _fit(node, marks)]
    left = _count(nodes) - _count(closed)
    if not closed or left >= wanted or _count(nodes) < wanted:
        return
    down = _count([node for node in closed if not node.ready])
    cordoned = _count([node for node in closed if node.ready and not node.schedulable])
    rest = _count(closed) - down - cordoned
    words = [f"{down:,} are not ready"] if down else []
    words += [f"{cordoned:,} are cordoned"] if cordoned else []
    lacking = {
        f"{key}={value}"
        for node in closed
        for key, value in marks.items()
        if node.labels.get(key) != value
    }
    labels = ", ".join(sorted(lacking))
    words += [f"{rest:,} lack the label {labels}"] if rest else []
    chosen = rest and situation.spec.cluster.node_selector
    selected = " Labels come from cluster.node_selector and the profile." if chosen else ""
    yield situation.error(
        SiteCode.UNFIT_NODES,
        "cluster.nodes",
        f"of {_count(nodes):,} {situation.plan.machines.node_type} nodes, "
        f"{' and '.join(words)}: {left:,} remain for {wanted:,} pods.",
        "Find the reason with kubectl describe node. To make a cordoned node schedulable, run "
        f"kubectl uncordon.{selected}",
        wanted,
        proposed(*([f"cluster.nodes={left}"] if left else [])),
    )


def _fit(node: NodeFacts, marks: dict[str, str]) -> bool:
    return node.ready and node.schedulable and marks.items() <= node.labels.items()


def no_devices(situation: Situation) -> Iterator[Checked]:
    """Report nodes that advertise fewer GPUs than a pod requests."""
    demand = demand_of(situation)
    if demand.gpu:
        yield from _offer(situation, demand.gpu, SiteCode.NO_DEVICES, FIELD)


def no_fabric(situation: Situation) -> Iterator[Checked]:
    """Report nodes that do not advertise network devices or other resources of the spec."""
    demand, extra = demand_of(situation), situation.spec.cluster.resources
    if demand.fabric and demand.fabric not in extra:
        yield from _offer(situation, demand.fabric, SiteCode.NO_FABRIC, "cluster.fabric")
    for name in extra:
        yield from _offer(situation, name, SiteCode.NO_FABRIC, f"cluster.resources.{name}")


def _offer(
    situation: Situation, resource: str, code: SiteCode, field_name: str
) -> Iterator[Checked]:
    nodes, demand = _nodes(situation), demand_of(situation)
    wanted = demand.of_pod[resource]
    offering = [node for node in nodes if node.allocatable.get(resource, 0.0) >= wanted]
    if not nodes or _count(offering) >= min(demand.pods, _count(nodes)):
        return
    most = max(node.allocatable.get(resource, 0.0) for node in nodes)
    alike = {
        name
        for node in nodes
        for name in node.allocatable
        if name.partition("/")[0] == resource.partition("/")[0] and name != resource
    }
    rule = (
        f"a pod requests {shown(resource, wanted)}, but only {_count(offering):,} of "
        f"{_count(nodes):,} {situation.plan.machines.node_type} nodes offer this"
    )
    if most:
        rule += f"; the maximum is {most:,.0f}"
    elif alike:
        rule += f"; they offer {', '.join(sorted(alike))}"
    by = list[str]()
    fix = f"Install {_plugin(resource)} ({site_command(situation)} prints the command)."
    if field_name == "cluster.fabric":
        other = " set cluster.resources to a resource that they offer," if alike else ""
        fix = f"{fix[:-1]},{other} or set cluster.fabric=none to test without the fabric (slow)."
        by = ["cluster.fabric=none"]
    elif code is SiteCode.NO_DEVICES and most:
        fix = f"Use cluster.processes_per_node={most:.0f}, or find out why nodes lack GPUs."
        by = [f"cluster.processes_per_node={most:.0f}"]
    yield situation.error(code, field_name, f"{rule}.", fix, resource, proposed(*by))


def small_nodes(situation: Situation) -> Iterator[Checked]:
    """Report nodes with less allocatable CPU or memory than a pod requests."""
    nodes, demand = _nodes(situation), demand_of(situation)
    wanted = {name: demand.of_pod[name] for name in ("cpu", "memory") if name in demand.of_pod}
    fitting = [node for node in nodes if not lacks(node.allocatable, wanted)]
    if not nodes or _count(fitting) >= min(demand.pods, _count(nodes)):
        return
    name = lacks(
        max(nodes, key=lambda node: node.allocatable.get("memory", 0.0)).allocatable, wanted
    )
    short = name[0] if name else "memory"
    most = max(node.allocatable.get(short, 0.0) for node in nodes)
    yield situation.error(
        SiteCode.SMALL_NODES,
        FIELD,
        f"a pod requests {shown(short, wanted[short])}, but {situation.plan.machines.node_type} "
        f"nodes have {shown(short, most)} allocatable.",
        "Reduce the kubelet's and daemons' reservations, or correct the node type in your own "
        "catalog.",
        short,
    )


def far_apart(situation: Situation) -> Iterator[Checked]:
    """Report nodes in several zones, none of which has enough nodes for a fast network."""
    nodes, demand = _nodes(situation), demand_of(situation)
    label = demand.scene.profile.zone_label
    zones = Counter[str]()
    for node in nodes:
        if label in node.labels:
            zones[node.labels[label]] += node.count
    if not demand.fabric or len(zones) < 2 or max(zones.values()) >= demand.pods:
        return
    if _count(nodes) < demand.pods:
        return
    zone, most = zones.most_common(1)[0]
    there = ", ".join(f"{count:,} in {name}" for name, count in sorted(zones.items()))
    yield situation.error(
        SiteCode.FAR_APART,
        "cluster.nodes",
        f"{situation.plan.machines.fabric} does not work across zones: the {demand.pods:,} nodes "
        f"must be in one zone, but there are {there}.",
        f"Use {most}, the number of nodes in {zone}, or add nodes to one zone.",
        demand.pods,
        proposed(f"cluster.nodes={most}"),
    )


def preparation(situation: Situation) -> Iterator[Checked]:
    """Report data preparation pods that do not fit on any node."""
    facts, pods = cluster_of(situation), situation.spec.cluster.preparation
    sources = situation.spec.data.sources or ()
    if not facts.sees(Subject.NODES) or not facts.nodes:
        return
    if not any(source.prepared is None for source in sources):
        return
    wanted = {"cpu": float(pods.cpus), "memory": float(pods.memory)}
    open_nodes = [node for node in facts.nodes if takes_cpu_pods(situation, node)]
    if not open_nodes and situation.spec.cluster.cpu_nodes is not None and not _growth(situation):
        yield situation.warning(
            SiteCode.PREPARATION,
            "cluster.cpu_nodes",
            "no node accepts pods without GPUs: each lacks a label that they require, or has a "
            "taint that they do not tolerate. Data preparation and TensorBoard would stay Pending.",
            "Compare cluster.cpu_nodes with kubectl describe nodes.",
        )
        return
    # Without such nodes, an autoscaler or an administrator may add them: assume similar ones.
    nodes = open_nodes or facts.nodes
    if any(not lacks(node.allocatable, wanted) for node in nodes):
        return
    cpus = max(node.allocatable.get("cpu", 0.0) for node in nodes)
    memory = max(node.allocatable.get("memory", 0.0) for node in nodes)
    on_cpus = pods.cpus > cpus
    name = "cpus" if on_cpus else "memory"
    value = int(cpus) if on_cpus else f"{int(memory) >> 30}Gi"
    asked = f"{pods.cpus:,} CPUs" if on_cpus else shown("memory", pods.memory)
    most = f"{cpus:,.0f} CPUs" if on_cpus else shown("memory", memory)
    yield situation.warning(
        SiteCode.PREPARATION,
        f"cluster.preparation.{name}",
        f"a pod that prepares data requests {asked}, but the largest node has {most} allocatable.",
        f"Use {value} or less.",
        pods.cpus if on_cpus else pods.memory,
        proposed(f"cluster.preparation.{name}={value}"),
    )


RULES = (
    static(CheckCode.IDLE_GPUS, look=idle_gpus),
    static(CheckCode.HOST_MEMORY, look=offloaded),
    of_cluster(SiteCode.NO_NODES, look=no_nodes),
    of_cluster(SiteCode.FEW_NODES, look=few_nodes),
    of_cluster(SiteCode.TAINTED, look=tainted),
    of_cluster(SiteCode.UNFIT_NODES, look=unfit),
    of_cluster(SiteCode.NO_DEVICES, look=no_devices),
    of_cluster(SiteCode.NO_FABRIC, look=no_fabric),
    of_cluster(SiteCode.SMALL_NODES, look=small_nodes),
    of_cluster(SiteCode.FAR_APART, look=far_apart),
    of_cluster(SiteCode.PREPARATION, look=preparation),
)
