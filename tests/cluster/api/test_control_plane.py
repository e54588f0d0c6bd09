# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the harness itself promises: access, faults, and operators that do their work."""

import json
from itertools import product

import pytest

from seatrial.rendering.manifest import Manifest
from seatrial.runs.launch.kubernetes import SEEN_SECONDS, UNSEEN
from tests.cluster.access import Denial
from tests.cluster.cluster import Cluster
from tests.cluster.daemon import wait_until
from tests.cluster.http_api import Api
from tests.unit.rendering.scenes import manifests

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
MAY_NOT = {
    *product(("get", "list", "create", "delete"), ("secrets",)),
    ("create", "pods/exec"),
    ("create", "pods/attach"),
    ("create", "roles.rbac.authorization.k8s.io"),
    ("create", "rolebindings.rbac.authorization.k8s.io"),
    ("list", "nodes"),
    ("list", "persistentvolumes"),
    ("list", "namespaces"),
    ("create", "clusterroles.rbac.authorization.k8s.io"),
    ("list", "customresourcedefinitions.apiextensions.k8s.io"),
    ("impersonate", "users"),
}
"""Some of what a launcher must not be able to do."""


def _may(api: Api, namespace: str, verb: str, resource: str) -> bool:
    plural, _, group = resource.partition(".")
    name, _, below = plural.partition("/")
    about = {"namespace": namespace, "verb": verb, "resource": name, "group": group}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": {"resourceAttributes": about | {"subresource": below}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    return bool(api.ask("POST", path, review).body["status"]["allowed"])


def test_a_launcher_may_only_what_its_role_says(control_plane: Cluster) -> None:
    namespace = control_plane.new_namespace()
    api = control_plane.api(control_plane.restricted_kubeconfig(namespace))
    for verb in ("get", "list", "watch", "create", "patch", "delete"):
        assert _may(api, namespace, verb, "pytorchjobs.kubeflow.org"), verb
    allowed = {pair for pair in MAY_NOT if _may(api, namespace, *pair)}
    assert allowed == set()
    assert not _may(api, "default", "list", "pods")


def test_what_was_denied_is_known(control_plane: Cluster) -> None:
    namespace = control_plane.new_namespace()
    api = control_plane.api(control_plane.restricted_kubeconfig(namespace))
    assert api.ask("GET", f"/api/v1/namespaces/{namespace}/pods").status == 200
    assert control_plane.denied(namespace) == []
    assert api.ask("GET", "/api/v1/nodes").status == 403
    wait_until(lambda: bool(control_plane.denied(namespace)), "the audit log is written")
    assert control_plane.denied(namespace) == [Denial("list", "nodes", "")]


def test_an_observer_sees_nodes_and_changes_nothing(control_plane: Cluster) -> None:
    namespace = control_plane.new_namespace()
    path = control_plane.restricted_kubeconfig(namespace, "trainjob", observer=True)
    api = control_plane.api(path)
    assert _may(api, namespace, "list", "nodes")
    assert not _may(api, namespace, "patch", "nodes")
    assert _may(api, namespace, "create", "trainjobs.trainer.kubeflow.org")
    assert not _may(api, namespace, "create", "pytorchjobs.kubeflow.org")


def create(api: Api, made: Manifest) -> None:
    """Create an object, once the operator's webhook has seen what it needs."""

    def is_seen() -> bool:
        answer = api.create(made, {"fieldValidation": "Strict"})
        assert answer.accepted or UNSEEN in answer.message, answer.message
        return answer.accepted

    wait_until(is_seen, f"{made['kind']} is accepted", SEEN_SECONDS)


@pytest.mark.parametrize("operator", ["pytorchjob", "trainjob"])
def test_a_rendered_run_becomes_pods(control_plane: Cluster, operator: str) -> None:
    namespace = control_plane.new_namespace()
    api = control_plane.api(control_plane.restricted_kubeconfig(namespace, operator))
    for made in manifests(f"cluster.namespace={namespace}", f"cluster.operator={operator}"):
        create(api, made)

    def pods() -> int:
        text = control_plane.kubectl("get", "pods", "-n", namespace, "-o", "json")
        found = json.loads(text)["items"]
        return sum("slim-7b" in each["metadata"]["name"] for each in found)

    # Two of the run and one of TensorBoard.
    wait_until(lambda: pods() == 3, "the operator makes two pods")
    assert control_plane.denied(namespace) == []


def test_what_operators_make_for_two_runs_has_different_names(control_plane: Cluster) -> None:
    namespace = control_plane.new_namespace()
    api = control_plane.api()
    for name, operator in (("slim", "pytorchjob"), ("slim-master-0", "trainjob")):
        where = f"cluster.namespace={namespace}"
        for made in manifests(f"name={name}", where, f"cluster.operator={operator}"):
            create(api, made)

    def owners(kind: str) -> dict[str, str]:
        found = api.ask("GET", f"/api/v1/namespaces/{namespace}/{kind}").body["items"]
        heads = [each["metadata"] for each in found if "ownerReferences" in each["metadata"]]
        return {head["name"]: head["ownerReferences"][0]["kind"] for head in heads}

    wait_until(lambda: "JobSet" in owners("services").values(), "JobSet makes its service")
    wait_until(lambda: "slim-master-0" in owners("services"), "the other operator makes its own")
    assert owners("services") == {
        "slim-master-0": "PyTorchJob",
        "slim-worker-0": "PyTorchJob",
        "slim-master-0--nodes": "JobSet",
    }
    path = f"/api/v1/namespaces/{namespace}/pods"
    wait_until(lambda: "Job" in owners("pods").values(), "JobSet makes pods")
    pods = api.ask("GET", path).body["items"]
    domains = {each["spec"].get("subdomain") for each in pods}
    assert domains == {None, "slim-master-0--nodes"}


def test_nothing_is_lost_when_servers_crash(control_plane: Cluster) -> None:
    namespace = control_plane.new_namespace()
    control_plane.kubectl("create", "configmap", "kept", "-n", namespace)
    control_plane.stop_etcd()
    assert not control_plane.api().ready()
    control_plane.start_etcd()
    control_plane.stop_api_server()
    with pytest.raises(OSError, match="refused"):
        control_plane.api().ask("GET", "/readyz")
    control_plane.start_api_server()
    assert control_plane.get("configmap", "kept", namespace)["metadata"]["name"] == "kept"
