# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Every manifest that Seatrial renders of a recipe, for a set of operators' releases."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from seatrial.errors import FindingsError
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.render import Part, render
from seatrial.spec.cluster import Operator
from tests.cluster.definitions import ReleaseSet
from tests.unit.rendering.scenes import CATALOG, every_combination, retargeted

VARIANTS: tuple[tuple[str, ...], ...] = (
    (),
    (
        "cluster.queue=research",
        "cluster.topology={level: cloud.provider.com/topology-block}",
        "cluster.priority_class=high",
    ),
    ("cluster.gang=coscheduling",),
    ("cluster.gang=volcano",),
    ("monitoring.prometheus.pod_monitor={labels: {release: prometheus}}",),
    (
        *("cluster.labels={team: nlp}", "cluster.annotations={example.com/cost: '7'}"),
        *("cluster.node_selector={pool: gold}", "cluster.shm=100Gi"),
        "cluster.tolerations=[{key: team, value: nlp, effect: NoSchedule}, {key: spot}]",
        "cluster.cpu_nodes={node_selector: {pool: cpu}, tolerations: [{key: pool}]}",
        *("cluster.resources={example.com/nic: 8}", "cluster.scratch={storage_class: nvme}"),
    ),
    ("cluster.scratch={host_path: /mnt/nvme}",),
)
"""What changes the shape of objects, on top of every combination."""
OTHER_NODE_TYPES = {
    "aks": ("Standard_ND96asr_v4",),
    "gke": ("a3-highgpu-8g", "a3-megagpu-8g"),
}
"""Node types whose pods differ from those of the default node type of a profile."""
ATTEMPTS = (
    Attempt(),
    Attempt(2, ("node-a", "node-b"), f"sha256:{'0' * 64}"),
)
"""A first submission, and one that stays off nodes."""


@dataclass(slots=True)
class Rendered:
    """The manifests of all combinations."""

    combinations: int = 0
    """How many combinations of recipe, profile, operator and variant were rendered."""
    objects: int = 0
    """How many objects they came to."""
    distinct: dict[str, Manifest] = field(default_factory=dict)
    """Those that differ from each other, by their digest."""
    origin: dict[str, str] = field(default_factory=dict)
    """Where each is from, for a message."""
    refused: Counter[str] = field(default_factory=Counter)
    """Combinations that Seatrial itself refuses, by the finding and variant."""

    def add(self, origin: str, manifests: list[Manifest]) -> None:
        """Take in the objects of one combination."""
        self.combinations += 1
        for each in manifests:
            self.objects += 1
            digest = hashlib.sha256(json.dumps(each, sort_keys=True).encode()).hexdigest()
            self.distinct.setdefault(digest, each)
            self.origin.setdefault(digest, origin)


def rendered(releases: ReleaseSet, operators: frozenset[Operator], *, whole: bool) -> Rendered:
    """The manifests of these operators for the versions of a set: all, or only the jobs."""
    made = Rendered()
    for name, profile, operator in every_combination():
        if operator not in operators:
            continue
        others = [(f"cluster.node_type={each}",) for each in OTHER_NODE_TYPES.get(profile, ())]
        for variant in (*VARIANTS, *others):
            origin = f"{name} on {profile} by {operator} with {' '.join(variant) or 'defaults'}"
            try:
                plan = _of_release(retargeted(name, profile, operator, variant), releases)
                for attempt in ATTEMPTS:
                    made.add(origin, list(_manifests(plan, attempt, whole=whole)))
            except FindingsError as error:
                made.refused[f"{error.findings[0].code} {' '.join(variant)}"] += 1
    return made


def _manifests(plan: Plan, attempt: Attempt, *, whole: bool) -> Iterator[Manifest]:
    if not whole:
        yield from render(plan, CATALOG, Part.RUN, attempt).manifests[-2:]
        return
    for part in Part:
        yield from render(plan, CATALOG, part, attempt).manifests


def _of_release(plan: Plan, releases: ReleaseSet) -> Plan:
    """The plan for the version of its operator in a set; nothing else depends on that."""
    versions = {
        Operator.PYTORCHJOB: releases.training_operator,
        Operator.TRAINJOB: releases.trainer,
    }
    version = versions.get(plan.machines.operator)
    cluster = plan.spec.cluster.model_copy(update={"operator_version": version})
    return replace(plan, spec=plan.spec.model_copy(update={"cluster": cluster}))
