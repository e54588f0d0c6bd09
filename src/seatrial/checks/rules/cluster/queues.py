# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about Kueue: the queue exists, admits the run, and has enough quota for it."""

from collections.abc import Iterator, Mapping

from seatrial.checks.cluster.demand import (
    Demand,
    cluster_of,
    demand_of,
    namespace_of,
    nearest,
    of_the_type,
    shown,
)
from seatrial.checks.cluster.facts import (
    ClusterQueueFacts,
    FlavorFacts,
    LocalQueueFacts,
    Subject,
    TopologyFacts,
)
from seatrial.checks.rule import Checked, Situation, of_cluster, proposed
from seatrial.checks.rules.cluster.components import site_command
from seatrial.codes.cluster_checks import SiteCode

FIELD = "cluster.queue"
DEFINITION = "localqueues.kueue.x-k8s.io"


def _local_queue(situation: Situation) -> LocalQueueFacts | None:
    """Return the local queue of the run, if it exists."""
    facts, namespace = cluster_of(situation), namespace_of(situation)
    name = situation.spec.cluster.queue
    found = (q for q in facts.local_queues if (q.namespace, q.name) == (namespace, name))
    return next(found, None)


def _cluster_queue(situation: Situation) -> ClusterQueueFacts | None:
    """Return the cluster queue behind the run's local queue."""
    local, facts = _local_queue(situation), cluster_of(situation)
    if local is None or not facts.sees(Subject.CLUSTER_QUEUES):
        return None
    return next((q for q in facts.cluster_queues if q.name == local.cluster_queue), None)


def no_queue(situation: Situation) -> Iterator[Checked]:
    """Report a queue that does not exist or has no cluster queue."""
    facts, name = cluster_of(situation), situation.spec.cluster.queue
    namespace = namespace_of(situation)
    if name is None:
        return
    if not facts.serves(DEFINITION):
        yield situation.error(
            SiteCode.NO_QUEUE,
            FIELD,
            "Kueue is not installed in the cluster, so the run would never be admitted.",
            f"Install Kueue ({site_command(situation)} prints the command), or remove the queue.",
            name,
            proposed("cluster.queue=null"),
        )
        return
    if not facts.sees(Subject.LOCAL_QUEUES, namespace):
        return
    local = _local_queue(situation)
    if local is None:
        there = sorted(q.name for q in facts.local_queues if q.namespace == namespace)
        other = nearest(name, there)
        yield situation.error(
            SiteCode.NO_QUEUE,
            FIELD,
            f"namespace {namespace} has no queue {name}; its queues: {', '.join(there) or 'none'}.",
            f"Use {other}." if other else "Ask an administrator for a queue in this namespace.",
            name,
            proposed(*([f"{FIELD}={other}"] if other else [])),
        )
    elif facts.sees(Subject.CLUSTER_QUEUES) and _cluster_queue(situation) is None:
        yield situation.error(
            SiteCode.NO_QUEUE,
            FIELD,
            f"the queue {name} refers to the cluster queue {local.cluster_queue}, which does not "
            "exist.",
            "Ask an administrator to create the cluster queue, or use a different queue.",
            name,
        )


def _room(situation: Situation, queue: ClusterQueueFacts) -> Mapping[str, float]:
    """Return the maximum that a queue can admit: its own quota, plus what it can borrow."""
    cohort = [
        other
        for other in cluster_of(situation).cluster_queues
        if queue.cohort and other.cohort == queue.cohort and other.name != queue.name
    ]
    return {
        name: own
        + min(
            queue.borrows.get(name, float("inf")),
            sum(other.quota.get(name, 0.0) for other in cohort),
        )
        for name, own in queue.quota.items()
    }


def small_queue(situation: Situation) -> Iterator[Checked]:
    """Report a queue whose quota is smaller than the run's request."""
    queue = _cluster_queue(situation)
    if queue is None:
        return
    demand, room = demand_of(situation), _room(situation, queue)
    short = [name for name in demand.of_pod if name in room and room[name] < demand.in_all[name]]
    if not short:
        return
    name = demand.gpu if demand.gpu in short else short[0]
    fitting = int(min(room[each] // demand.of_pod[each] for each in demand.of_pod if each in room))
    fix = "Ask an administrator for a larger quota, or use a different queue."
    if fitting:
        fix = f"Use cluster.nodes={fitting}, or ask an administrator for a larger quota."
    yield situation.error(
        SiteCode.SMALL_QUEUE,
        FIELD,
        f"the run needs {shown(name, demand.in_all[name])}, but the queue {queue.name} has "
        f"{room[name]:,.0f} in total: the run would never be admitted.",
        fix,
        situation.spec.cluster.queue,
        proposed(*([f"cluster.nodes={fitting}"] if fitting else [])),
    )


def uncovered(situation: Situation) -> Iterator[Checked]:
    """Report a resource that pods request but the queue does not list."""
    queue = _cluster_queue(situation)
    if queue is None:
        return
    demand = demand_of(situation)
    missing = [name for name in demand.of_pod if name not in queue.quota]
    if missing:
        by = ["cluster.fabric=none"] if missing == [demand.fabric] else []
        slow = ", or set cluster.fabric=none to test without the fabric (slow)" if by else ""
        yield situation.error(
            SiteCode.UNCOVERED,
            FIELD,
            f"the queue {queue.name} does not cover {', '.join(missing)}: Kueue does not admit "
            "pods that request resources that their queue does not list.",
            f"Ask an administrator to add the resource to the queue{slow}.",
            situation.spec.cluster.queue,
            proposed(*by),
        )


def stopped(situation: Situation) -> Iterator[Checked]:
    """Report a queue that is stopped, or that does not admit this namespace."""
    local, queue = _local_queue(situation), _cluster_queue(situation)
    name, namespace = situation.spec.cluster.queue, namespace_of(situation)
    for each in (local, queue):
        if each is not None and each.stopped:
            yield situation.error(
                SiteCode.STOPPED_QUEUE,
                FIELD,
                f"the queue {each.name} is stopped (stopPolicy): it admits no workloads.",
                "Ask an administrator to resume the queue, or use a different queue.",
                name,
            )
            return
    facts = cluster_of(situation)
    if queue is None or not facts.sees(Subject.NAMESPACES):
        return
    own = next((n.labels for n in facts.namespaces if n.name == namespace), None)
    if own is None:
        return
    if queue.chooses is None or not queue.chooses.items() <= own.items():
        yield situation.error(
            SiteCode.STOPPED_QUEUE,
            FIELD,
            f"the cluster queue {queue.name} does not admit workloads from namespace {namespace} "
            "(namespaceSelector).",
            "Ask an administrator to add this namespace to the selector, or use a different queue.",
            name,
        )


def topology(situation: Situation) -> Iterator[Checked]:
    """Report a topology level that nodes lack, or that Kueue does not use for placement."""
    wanted, facts = situation.spec.cluster.topology, cluster_of(situation)
    if wanted is None:
        return
    demand, field_name = demand_of(situation), "cluster.topology.level"
    nodes = of_the_type(situation) if facts.sees(Subject.NODES) else []
    without = [node for node in nodes if wanted.level not in node.labels]
    if nodes and len(without) == len(nodes):
        known = sorted({key for node in nodes for key in node.labels if _groups(key)})
        other = nearest(wanted.level, known)
        yield situation.error(
            SiteCode.TOPOLOGY,
            field_name,
            f"no {situation.plan.machines.node_type} node has the label {wanted.level}.",
            f"Use {other}, or remove topology." if other else "Remove topology.",
            wanted.level,
            proposed(*([f"{field_name}={other}"] if other else [])),
        )
        return
    yield from _too_narrow(situation, demand)
    yield from _unplaced(situation, wanted.level)


def _groups(label: str) -> bool:
    """True if a label names a group of nodes rather than a node or its type."""
    words = ("zone", "block", "rack", "topology", "network-node", "capacity", "ultracluster")
    return any(word in label for word in words)


def _too_narrow(situation: Situation, demand: Demand) -> Iterator[Checked]:
    """Report a required topology level whose groups are all smaller than the run."""
    wanted, facts = situation.spec.cluster.topology, cluster_of(situation)
    if wanted is None or not wanted.required or not facts.sees(Subject.NODES):
        return
    groups: dict[str, int] = {}
    for node in of_the_type(situation):
        if wanted.level in node.labels:
            name = node.labels[wanted.level]
            groups[name] = groups.get(name, 0) + node.count
    if groups and max(groups.values()) < demand.pods:
        yield situation.error(
            SiteCode.TOPOLOGY,
            "cluster.topology.required",
            f"the run requires {demand.pods:,} nodes in one group of {wanted.level}, but the "
            f"largest group has {max(groups.values()):,}.",
            "Use cluster.topology.required=false, or a wider level.",
            "true",
            proposed("cluster.topology.required=false"),
        )


def _unplaced(situation: Situation, level: str) -> Iterator[Checked]:
    """Report a queue in which no flavor has a topology with the level."""
    queue, facts = _cluster_queue(situation), cluster_of(situation)
    seen = facts.sees(Subject.FLAVORS) and facts.sees(Subject.TOPOLOGIES)
    if queue is None or not queue.flavors or not seen:
        return
    flavors: dict[str, FlavorFacts] = {each.name: each for each in facts.flavors}
    levels: dict[str, TopologyFacts] = {each.name: each for each in facts.topologies}
    placing = [
        levels[flavors[name].topology].levels
        for name in queue.flavors
        if name in flavors and flavors[name].topology in levels
    ]
    if not any(level in known for known in placing):
        known = sorted({each for every in placing for each in every})
        other = nearest(level, known)
        yield situation.error(
            SiteCode.TOPOLOGY,
            "cluster.topology.level",
            f"no flavor of the queue {queue.name} has a topology with the level {level}"
            + (f"; the levels are {', '.join(known)}." if known else "; none has a topology."),
            f"Use {other}." if other else "Remove topology, or set a topology in the flavor.",
            level,
            proposed(
                *([f"cluster.topology.level={other}"] if other else ["cluster.topology=null"])
            ),
        )


RULES = (
    of_cluster(SiteCode.NO_QUEUE, look=no_queue),
    of_cluster(SiteCode.SMALL_QUEUE, look=small_queue),
    of_cluster(SiteCode.UNCOVERED, look=uncovered),
    of_cluster(SiteCode.STOPPED_QUEUE, look=stopped),
    of_cluster(SiteCode.TOPOLOGY, look=topology),
)
