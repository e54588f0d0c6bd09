# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What is gathered of a cluster: all that may be seen, no secret's value, and nothing changed."""

from typing import Any

from seatrial.catalog.catalog import Catalog, Kind
from seatrial.checks.cluster import parsing
from seatrial.checks.cluster.facts import ClusterFacts, Right, Subject, Taint
from seatrial.checks.probes.cluster import gather
from seatrial.cluster.discovery import GROUPS
from seatrial.cluster.kinds import PYTORCH_JOB
from seatrial.cluster.transport import Answer, Call, Json
from seatrial.rendering.render import Part, render
from tests.conftest import resolved
from tests.unit.cluster.fake_api import FakeTransport, fake_api
from tests.unit.runs.fake_cluster import CATALOG


def item(kind: str, name: str, namespace: str = "", version: str = "v1", **parts: Any) -> Json:
    head = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": version, "kind": kind, "metadata": head, **parts}


def gathered(server: FakeTransport) -> ClusterFacts:
    plan = resolved()
    made = render(plan, CATALOG, Part.RUN).manifests
    return gather(fake_api(server), plan.spec.cluster.namespace, made)


def node(name: str, **changes: Any) -> Json:
    labels = {"kubernetes.io/hostname": name, "pool": "a"}
    made = item("Node", name, spec=changes.pop("spec", {}))
    made["metadata"]["labels"] = labels
    ready = changes.pop("ready", "True")
    made["status"] = {
        "allocatable": {"cpu": "95", "memory": "1Gi", "nvidia.com/gpu": "8"},
        "conditions": [{"type": "Ready", "status": ready}],
    }
    return made


def test_nothing_is_changed_and_no_value_of_a_secret_is_kept() -> None:
    server = FakeTransport()
    server.put(item("Secret", "token", "research", data={"key": "aGlkZGVu"}, type="Opaque"))
    before = dict(server.objects)
    facts = gathered(server)
    assert server.objects == before
    assert facts.secrets[0].keys == ("key",)
    assert "aGlkZGVu" not in repr(facts)
    writes = [call for call in server.calls if not call.reads]
    assert all(call.path.endswith("selfsubjectaccessreviews") for call in writes)


def test_nodes_that_are_alike_are_counted_together() -> None:
    server = FakeTransport()
    for name in ("one", "two"):
        server.put(node(name))
    taints = [
        {"key": "team", "value": "vision", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
    ]
    server.put(node("three", ready="False", spec={"unschedulable": True, "taints": taints}))
    alike, other = gathered(server).nodes
    assert (alike.count, alike.ready, alike.schedulable) == (2, True, True)
    assert alike.allocatable["nvidia.com/gpu"] == 8
    assert (other.count, other.ready, other.schedulable) == (1, False, False)
    assert other.taints == (Taint("team", "vision"),)


def test_what_is_denied_is_noted_and_the_rest_is_seen() -> None:
    server = FakeTransport()
    server.denied = {("list", "nodes"), ("list", "secrets"), ("create", "pytorchjobs")}
    facts = gathered(server)
    assert facts.unseen == {Subject.NODES, Subject.SECRETS}
    assert facts.sees(Subject.CLAIMS, "anywhere")
    namespace = facts.namespace
    assert facts.denied == (Right("create", "pytorchjobs.kubeflow.org", namespace),)


def test_an_account_of_one_namespace_sees_that_one() -> None:
    server = FakeTransport()

    def denied(call: Call) -> Answer | None:
        everywhere = call.method == "GET" and call.path == "/api/v1/persistentvolumeclaims"
        return Answer(403, {"message": "forbidden"}) if everywhere else None

    server.instead = denied
    facts = gathered(server)
    assert Subject.CLAIMS in facts.only_here
    assert facts.sees(Subject.CLAIMS, facts.namespace)
    assert not facts.sees(Subject.CLAIMS, "elsewhere")


def test_a_cluster_that_adds_nodes_is_known_by_what_its_autoscaler_writes() -> None:
    server = FakeTransport()
    assert gathered(server).grows is False
    server.put(item("ConfigMap", "cluster-autoscaler-status", "kube-system"))
    assert gathered(server).grows is True
    server.denied = {("get", "configmaps")}
    assert gathered(server).grows is None


def test_what_pods_install_the_worker_by_is_looked_for_in_the_namespace_of_the_run() -> None:
    server = FakeTransport()
    assert gathered(server).lock_keys == ()
    lists = {"worker.txt": "torch", "llm-foundry.txt": "torch"}
    server.put(item("ConfigMap", "seatrial-worker-lock", "elsewhere", data={"a.txt": ""}))
    server.put(item("ConfigMap", "seatrial-worker-lock", "default", data=lists))
    assert gathered(server).lock_keys == ("worker.txt", "llm-foundry.txt")
    server.denied = {("get", "configmaps")}
    assert gathered(server).lock_keys is None


def test_kinds_that_are_not_served_are_not_listed() -> None:
    server = FakeTransport(unserved=(PYTORCH_JOB,))
    facts = gathered(server)
    assert not facts.serves("pytorchjobs.kubeflow.org")
    assert facts.serves("trainjobs.trainer.kubeflow.org", "v1alpha1")
    assert facts.refusals == ()


def test_an_object_that_is_refused_is_told_with_the_servers_words() -> None:
    server = FakeTransport()

    def refuses(call: Call) -> Answer | None:
        wrong = call.method == "POST" and "pytorchjobs" in call.path
        return Answer(422, {"message": "spec is wrong"}) if wrong else None

    server.instead = refuses
    (refusal,) = gathered(server).refusals
    assert refusal.said == "spec is wrong"
    assert refusal.about.startswith("PyTorchJob ")


def test_a_cluster_queue_adds_up_its_flavors() -> None:
    group = {
        "flavors": [
            {"name": "a", "resources": [{"name": "cpu", "nominalQuota": "1500m"}]},
            {
                "name": "b",
                "resources": [{"name": "cpu", "nominalQuota": 2, "borrowingLimit": 1}],
            },
        ]
    }
    spec = {"resourceGroups": [group], "stopPolicy": "Hold", "cohort": "all"}
    found = parsing.cluster_queue(item("ClusterQueue", "gpu", spec=spec))
    assert found.quota == {"cpu": 3.5}
    assert found.flavors == ("a", "b")
    assert (found.stopped, found.cohort, found.chooses) == (True, "all", None)


def test_a_claim_that_waits_has_the_size_that_it_asks_for() -> None:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "2Ti"}}}
    found = parsing.claim(item("PersistentVolumeClaim", "data", "research", spec=spec))
    assert (found.phase, found.capacity, found.free) == ("Pending", 2 << 40, None)


def test_the_definitions_of_all_components_are_asked_for(catalog: Catalog) -> None:
    components = map(catalog.component, catalog.names(Kind.COMPONENTS))
    groups = {each.definition.partition(".")[2] for each in components if each.definition}
    assert "jobset.x-k8s.io" in groups
    assert groups <= set(GROUPS)
