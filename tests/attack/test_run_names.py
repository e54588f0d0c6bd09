# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Pairs of run names that are likely to be mistaken for each other: no object in common."""

from collections.abc import Callable, Iterator
from itertools import islice
from random import Random

import pytest

from seatrial.naming import MAX_RUN_NAME, as_dns_label, is_run_name
from seatrial.planning.plan import Plan
from seatrial.rendering.manifest import Manifest
from seatrial.runs.ledger.kubernetes import ledger_name
from seatrial.spec.cluster import Operator
from tests.attack.whole_run import OPERATORS, admin_manifests, namespaced_manifests, whole_plan
from tests.unit.rendering.scenes import pod_templates

pytestmark = [pytest.mark.attack, pytest.mark.timeout(1200)]

Size = Callable[[int, int], int]
STATIC_VOLUME = "cluster.storage.volume={handle: fs-1, attributes: {dnsname: fs, mountname: fsx}}"
PARTS = (
    *("tensorboard", "meeting", "nodes", "spec", "ledger", "ray", "reader-00000000"),
    *("data", "data-list", "data-end", "master-0", "worker-0", "worker-1", "node-0", "node-0-0"),
)
"""What Seatrial and the operators put behind the name of a run."""


def _letters(random: Random, length: int) -> str:
    text = "".join(random.choice("abcxyz019-") for _ in range(length))
    return as_dns_label(f"a{text}")


def _pairs(random: Random, number: int) -> Iterator[tuple[Plan, Plan]]:
    """Pairs of runs, each with any operator."""
    for index in range(number):
        one = _letters(random, random.randint(1, 20))
        namespace = other_namespace = "research"
        match index % 5:
            case 0:
                other = as_dns_label(f"{one}-{random.choice(PARTS)}")
            case 1:
                # As long as a name may be, and different only at its end.
                beginning = _letters(random, 60)[: MAX_RUN_NAME - 1].ljust(MAX_RUN_NAME - 1, "q")
                one, other = f"{beginning}a", f"{beginning}b"
            case 2:
                beginning = _letters(random, 60)[: MAX_RUN_NAME - 12].rstrip("-")
                one, other = beginning, as_dns_label(f"{beginning}-{random.choice(PARTS)}")
            case 3:
                # The same letters, divided otherwise between namespace and name.
                namespace, other_namespace = "team", "team-a"
                one, other = f"a-{one}", one
            case _:
                other = _letters(random, random.randint(1, 39))
        if (one, namespace) != (other, other_namespace):
            yield (
                _named(random.choice(OPERATORS), namespace, one),
                _named(random.choice(OPERATORS), other_namespace, other),
            )


def _named(operator: str, namespace: str, name: str) -> Plan:
    """The plan of a run under a name, which a spec could have."""
    assert is_run_name(name), name
    return whole_plan(operator, name, namespace, STATIC_VOLUME)


class Run:
    """What there is of a run in a cluster."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.name, self.namespace = plan.spec.name, plan.spec.cluster.namespace
        self.manifests: list[Manifest] = [*namespaced_manifests(plan), *admin_manifests(plan)]

    def objects(self) -> set[tuple[str, str, str]]:
        """Kind, namespace and name of all objects, those that operators make included."""
        run, inside = self.name, self.namespace
        found = {("ConfigMap", inside, ledger_name(run))}
        for each in self.manifests:
            head = each["metadata"]
            found.add((each["kind"], head.get("namespace", ""), head["name"]))
        machines = self.plan.machines
        if machines.operator is Operator.PYTORCHJOB:
            pods = [f"{run}-master-0", *(f"{run}-worker-{i}" for i in range(machines.nodes))]
            found |= {(kind, inside, pod) for pod in pods for kind in ("Pod", "Service")}
        elif machines.operator is Operator.TRAINJOB:
            runtime = next(each for each in self.manifests if each["kind"] == "TrainingRuntime")
            network = runtime["spec"]["template"]["spec"]["network"]
            found |= {("JobSet", inside, run), ("Job", inside, f"{run}-node-0")}
            found.add(("Service", inside, network.get("subdomain", run)))
        return found

    def pods(self) -> list[dict[str, str]]:
        """The labels of all pods, with those that operators add."""
        owner = {
            "training.kubeflow.org/job-name": self.name,
            "batch.kubernetes.io/job-name": self.name,
            "batch.kubernetes.io/job-completion-index": str(self.plan.machines.nodes - 1),
            "ray.io/node-type": "head",
            "training.kubeflow.org/replica-index": "0",
        }
        return [
            {**template["metadata"]["labels"], **owner, "training.kubeflow.org/replica-type": role}
            for each in self.manifests
            for template in pod_templates(each)
            for role in ("master", "worker")
        ]

    def selectors(self) -> list[tuple[str, dict[str, str]]]:
        """What objects select pods of their own namespace by."""
        found = []
        for each in self.manifests:
            name, spec = f"{each['kind']} {each['metadata']['name']}", each.get("spec") or {}
            sources = [one for rule in spec.get("ingress") or () for one in rule["from"]]
            chosen = [spec.get("selector"), spec.get("podSelector")]
            chosen += [one["podSelector"] for one in sources if "namespaceSelector" not in one]
            found += [(name, one.get("matchLabels", one)) for one in chosen if one is not None]
        return found

    def selected_of(self, other: "Run") -> list[str]:
        """Objects of this run that select pods of another in the same namespace."""
        if self.namespace != other.namespace:
            return []
        pods = other.pods()
        return [
            f"{name} selects pods of {other.name}"
            for name, wanted in self.selectors()
            if any(wanted.items() <= labels.items() for labels in pods)
        ]


def test_no_two_runs_have_an_object_in_common(
    attack_size: Size, record_property: Callable[[str, object], None]
) -> None:
    random, number = Random(24), attack_size(200, 20)  # noqa: S311
    common: list[tuple[str, str, str]] = []
    mixed: list[str] = []
    seen = 0
    for plans in islice(_pairs(random, 4 * number), number):
        one, other = map(Run, plans)
        seen += 1
        common += sorted(one.objects() & other.objects())
        mixed += [*one.selected_of(other), *other.selected_of(one)]
    figure = f"{seen} pairs of run names: {len(common)} objects in common"
    record_property("figure", f"{figure}, {len(mixed)} selectors that match the other run's pods")
    assert (common, mixed) == ([], [])
    assert seen == number


def test_every_selector_matches_pods_of_its_own_run() -> None:
    """The control: what is looked for above is there."""
    run = Run(_named("pytorchjob", "research", "slim"))
    pods = run.pods()
    for name, wanted in run.selectors():
        assert any(wanted.items() <= labels.items() for labels in pods), name
    assert len(run.objects()) > 20
