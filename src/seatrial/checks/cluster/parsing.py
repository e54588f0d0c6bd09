# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Converts objects from an API server to facts, without I/O."""

import re
from collections import Counter
from collections.abc import Iterator

from seatrial.checks.cluster.facts import (
    ClaimFacts,
    ClusterQueueFacts,
    Controller,
    FlavorFacts,
    LimitFacts,
    LocalQueueFacts,
    NamespaceFacts,
    NodeFacts,
    QuotaFacts,
    SecretFacts,
    StorageClassFacts,
    Taint,
    TopologyFacts,
    number,
    numbers,
)
from seatrial.cluster.transport import Json

_VERSION = re.compile(r":v?(\d+\.\d+(?:\.\d+)?)(?:$|[-@])")
"""The version in the tag of an image, such as `:v1.9.3`."""
ENFORCES = "pod-security.kubernetes.io/enforce"
OWN_LABELS = ("kubernetes.io/hostname",)
"""Labels that are unique to each node, which would prevent grouping."""
OWN_TAINTS = tuple(
    f"node.kubernetes.io/{state}" for state in ("not-ready", "unreachable", "unschedulable")
)
"""Taints that repeat the state of a node."""


def name(item: Json) -> str:
    """Return the name of an object."""
    return str(item["metadata"]["name"])


def place(item: Json) -> str:
    """Return the namespace of an object."""
    return str(item["metadata"].get("namespace", ""))


def namespace(item: Json) -> NamespaceFacts:
    labels = item["metadata"].get("labels") or {}
    ending = (item.get("status") or {}).get("phase") == "Terminating"
    return NamespaceFacts(name(item), labels.get(ENFORCES, ""), labels, ending)


def controller(item: Json) -> Controller:
    status = item.get("status") or {}
    # A daemon set has no replicas: its status counts its nodes.
    wanted = item["spec"].get("replicas", status.get("desiredNumberScheduled", 1))
    ready = status.get("readyReplicas") or status.get("numberReady") or 0
    containers = item["spec"]["template"]["spec"].get("containers") or ()
    tags = [_VERSION.search(str(each.get("image", ""))) for each in containers]
    version = next((tag[1] for tag in tags if tag), "")
    return Controller(name(item), place(item), int(wanted), int(ready), version)


def nodes(items: list[Json]) -> tuple[NodeFacts, ...]:
    """Group identical nodes."""
    counts = Counter[str]()
    facts: dict[str, NodeFacts] = {}
    for item in items:
        one = _node(item)
        key = repr((sorted(one.labels.items()), one.taints, sorted(one.allocatable.items())))
        key += f"{one.ready}{one.schedulable}"
        counts[key] += 1
        facts[key] = one
    return tuple(
        NodeFacts(count, one.labels, one.taints, one.allocatable, one.ready, one.schedulable)
        for key, count in counts.items()
        for one in (facts[key],)
    )


def _node(item: Json) -> NodeFacts:
    status, spec = item.get("status") or {}, item.get("spec") or {}
    labels = item["metadata"].get("labels") or {}
    ready = any(
        each.get("type") == "Ready" and each.get("status") == "True"
        for each in status.get("conditions") or ()
    )
    taints = tuple(
        Taint(each["key"], each.get("value", ""), each["effect"])
        for each in spec.get("taints") or ()
        if each["key"] not in OWN_TAINTS
    )
    return NodeFacts(
        1,
        {key: value for key, value in labels.items() if key not in OWN_LABELS},
        taints,
        numbers(status.get("allocatable")),
        ready,
        not spec.get("unschedulable", False),
    )


def claim(item: Json) -> ClaimFacts:
    spec, status = item["spec"], item.get("status") or {}
    asked = ((spec.get("resources") or {}).get("requests") or {}).get("storage", 0)
    return ClaimFacts(
        name(item),
        place(item),
        str(status.get("phase", "Pending")),
        tuple(status.get("accessModes") or spec.get("accessModes") or ()),
        int(number((status.get("capacity") or {}).get("storage", asked))),
        None,
        str(spec.get("storageClassName") or ""),
        "deletionTimestamp" in item["metadata"],
    )


def storage_class(item: Json) -> StorageClassFacts:
    return StorageClassFacts(name(item), str(item["provisioner"]))


def secret(item: Json) -> SecretFacts:
    """Convert a secret without its values."""
    return SecretFacts(
        name(item), place(item), tuple(item.get("data") or ()), str(item.get("type", ""))
    )


def quota(item: Json) -> QuotaFacts:
    """Convert a quota. Its usage may be a few seconds old, because a controller updates it."""
    spec, status = item["spec"], item.get("status") or {}
    scoped = bool(spec.get("scopes") or spec.get("scopeSelector"))
    hard = numbers(spec.get("hard"))
    return QuotaFacts(name(item), place(item), hard, numbers(status.get("used")), scoped)


def limits(item: Json) -> Iterator[LimitFacts]:
    """Yield the maximums that a limit range sets for a container or a pod."""
    for each in item["spec"].get("limits") or ():
        if each.get("type") in ("Container", "Pod") and each.get("max"):
            yield LimitFacts(name(item), place(item), numbers(each["max"]))


def local_queue(item: Json) -> LocalQueueFacts:
    """Convert a local queue."""
    spec = item["spec"]
    return LocalQueueFacts(name(item), place(item), str(spec["clusterQueue"]), _stopped(spec))


def cluster_queue(item: Json) -> ClusterQueueFacts:
    """Convert a cluster queue, and sum the quotas of its flavors."""
    spec = item["spec"]
    quotas: dict[str, float] = {}
    borrows: dict[str, float] = {}
    flavors: dict[str, None] = {}
    for group in spec.get("resourceGroups") or ():
        for each in group.get("flavors") or ():
            flavors[str(each["name"])] = None
            for resource in each.get("resources") or ():
                key, limit = str(resource["name"]), resource.get("borrowingLimit")
                quotas[key] = quotas.get(key, 0.0) + number(resource["nominalQuota"])
                more = float("inf") if limit is None else number(limit)
                borrows[key] = borrows.get(key, 0.0) + more
    selector = spec.get("namespaceSelector")
    chosen = None if selector is None else dict(selector.get("matchLabels") or {})
    cohort = str(spec.get("cohort") or spec.get("cohortName") or "")
    return ClusterQueueFacts(
        name(item), quotas, borrows, tuple(flavors), cohort, _stopped(spec), chosen
    )


def flavor(item: Json) -> FlavorFacts:
    """Convert a resource flavor."""
    spec = item.get("spec") or {}
    return FlavorFacts(
        name(item), spec.get("nodeLabels") or {}, str(spec.get("topologyName") or "")
    )


def topology(item: Json) -> TopologyFacts:
    levels = (item.get("spec") or {}).get("levels") or ()
    return TopologyFacts(name(item), tuple(str(each["nodeLabel"]) for each in levels))


def _stopped(spec: Json) -> bool:
    return str(spec.get("stopPolicy") or "None") != "None"
