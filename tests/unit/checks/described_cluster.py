# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A cluster as the `cluster.toml` of a broken run describes it: what is not listed is not there."""

import tomllib
from pathlib import Path
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
    number,
    numbers,
)

Description = dict[str, Any]
CLAIMS_ONLY = frozenset(Subject) - {Subject.CLAIMS}


def described_cluster(file: Path, kind: str, namespace: str) -> ClusterFacts | None:
    """The cluster of a case; in cases that are not about clusters only claims are described."""
    if not file.is_file():
        return None
    told: Description = tomllib.loads(file.read_text())
    unseen = frozenset[Subject]() if kind == "cluster" else CLAIMS_ONLY
    unseen |= {subject for subject in Subject if str(subject) in _unlisted(told)}
    definitions = {each["name"]: tuple(each["versions"]) for each in told.get("definitions", ())}
    levels = {each["namespace"]: each["enforce"] for each in told.get("pod_security", ())}
    if kind != "cluster":
        # Nothing is said of what is installed, so all that a run may need is taken to be there.
        definitions = {"pytorchjobs.kubeflow.org": ("v1",)}
    return ClusterFacts(
        namespace=namespace,
        definitions=definitions,
        kubernetes=str(told.get("kubernetes", "")),
        unseen=unseen,
        trainer_form=str(told.get("trainer_form", "")),
        namespaces=tuple(
            NamespaceFacts(name, levels.get(name, "")) for name in told.get("namespaces", ())
        ),
        controllers=tuple(_controller(each) for each in told.get("operators", ())),
        nodes=tuple(_nodes(each) for each in told.get("nodes", ())),
        claims=tuple(_claim(each) for each in told.get("claims", ())),
        classes=tuple(
            StorageClassFacts(each["name"], each["provisioner"])
            for each in told.get("storage_classes", ())
        ),
        drivers=tuple(told.get("csi_drivers", ())),
        secrets=tuple(
            SecretFacts(
                each["name"], each["namespace"], tuple(each.get("keys", ())), each.get("type", "")
            )
            for each in told.get("secrets", ())
        ),
        accounts=tuple(_pair(each) for each in told.get("service_accounts", ())),
        priorities=tuple(told.get("priority_classes", ())),
        quotas=tuple(
            QuotaFacts(
                each["name"], each["namespace"], numbers(each["hard"]), numbers(each.get("used"))
            )
            for each in told.get("quotas", ())
        ),
        limits=tuple(
            LimitFacts(each["name"], each["namespace"], numbers(each["max"]))
            for each in told.get("limit_ranges", ())
        ),
        **_queues(told),
        denied=tuple(
            Right(each["verb"], each["resource"], each.get("namespace", ""))
            for each in told.get("denied", ())
        ),
        refusals=tuple(
            AccessRefusal(each["object"], each["said"]) for each in told.get("refusals", ())
        ),
    )


def _controller(each: Description) -> Controller:
    return Controller(
        each["name"],
        each["namespace"],
        each.get("wanted", 1),
        each.get("ready", 1),
        each.get("version", ""),
    )


def _unlisted(told: Description) -> set[str]:
    lists = [each for each in told.get("denied", ()) if each["verb"] == "list"]
    return {each["resource"].partition(".")[0] for each in lists}


def _queues(told: Description) -> dict[str, Any]:
    topologies = tuple(
        TopologyFacts(each["name"], tuple(each["levels"])) for each in told.get("topologies", ())
    )
    return {
        "local_queues": tuple(
            LocalQueueFacts(each["name"], each["namespace"], each["cluster_queue"], _stopped(each))
            for each in told.get("local_queues", ())
        ),
        "cluster_queues": tuple(
            ClusterQueueFacts(
                each["name"],
                numbers(each["quota"]),
                numbers(each.get("borrowing")),
                tuple(each.get("flavors", ())),
                each.get("cohort", ""),
                _stopped(each),
            )
            for each in told.get("cluster_queues", ())
        ),
        "flavors": tuple(
            FlavorFacts(each["name"], each.get("labels", {}), each.get("topology", ""))
            for each in told.get("flavors", ())
        ),
        "topologies": topologies,
    }


def _stopped(told: Description) -> bool:
    return bool(told.get("stopped")) or str(told.get("stop_policy", "None")) != "None"


def _nodes(told: Description) -> NodeFacts:
    return NodeFacts(
        told.get("count", 1),
        told.get("labels", {}),
        tuple(_taint(text) for text in told.get("taints", ())),
        numbers(told.get("allocatable")),
        told.get("ready", True),
        told.get("schedulable", not told.get("unschedulable", False)),
    )


def _taint(text: str) -> Taint:
    """A taint as kubectl writes it: `key=value:Effect`."""
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return Taint(key, value, effect)


def _claim(told: Description) -> ClaimFacts:
    free = told.get("free")
    return ClaimFacts(
        told["name"],
        told["namespace"],
        told.get("phase", "Bound"),
        tuple(told.get("access_modes", ())),
        int(number(told.get("capacity", 0))),
        None if free is None else int(number(free)),
        told.get("storage_class", ""),
    )


def _pair(text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    return namespace, name
