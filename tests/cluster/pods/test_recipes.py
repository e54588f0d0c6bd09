# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The recipes for clusters, in real pods of a node that pretends to have their devices.

Objects are those that Seatrial renders, with these changes: a local image, smaller requests of
processors and memory, one volume of this host instead of the storage class's, empty directories for
those that only a GPU node has, and a fabric's daemon that only sleeps. The node
advertises what the pods ask for, has the labels that they select and the taint of GPU pools. It has
no device files, so the preflight check must refuse it: that is the end of what can run here.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.recipes.shipped import recipe, recipe_names
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.render import Part, render
from seatrial.sdk.plan import load_plan
from seatrial.spec.cluster import Operator
from tests.cluster import images
from tests.cluster.cluster import Cluster
from tests.cluster.node import NODE
from tests.cluster.scene import until
from tests.cluster.toy_run import CLAIM

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]

CATALOG = Catalog()
OWN = ("cpu", "memory", "ephemeral-storage")
"""Resources that the kubelet itself counts."""
SMALL = {"cpu": "100m", "memory": "1Gi", "ephemeral-storage": "100Mi"}
PATCH = "application/merge-patch+json"
TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def is_for_kubernetes(name: str) -> bool:
    profile = CATALOG.profile(recipe(name).spec.cluster.profile)
    return Operator.TORCHRUN not in profile.operators


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    made = cluster.new_namespace("recipe")
    cluster.offer_volume(made, CLAIM, "shared", gib=100)
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM, "namespace": made},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "shared",
            "resources": {"requests": {"storage": "100Gi"}},
        },
    }
    cluster.kubectl("apply", "-f", "-", given=json.dumps(claim))
    yield made
    cluster.delete_namespace(made)


def objects_of(name: str, namespace: str) -> list[Manifest]:
    """What Seatrial renders of a recipe for this cluster."""
    spec = recipe(name).spec
    image = images.FOUNDRY if str(spec.engine.name) == "llm-foundry" else images.USERLAND
    overrides = [
        f"cluster.namespace={namespace}",
        f"cluster.image={image}",
        f"cluster.storage={{claim: {CLAIM}, mount: {spec.cluster.storage.mount}}}",
        "cluster.operator=pytorchjob",
        "cluster.secrets=[]",
        "monitoring.tensorboard=false",
    ]
    if spec.cluster.service_account is not None:
        overrides.append("cluster.service_account=null")
    plan = load_plan(recipe(name).path, overrides, CATALOG)[1]
    return [small(each, image) for each in render(plan, CATALOG, Part.RUN).manifests]


def small(manifest: Manifest, image: str) -> Manifest:
    """Change what this node cannot pretend: images, processors and memory."""
    made: Manifest = json.loads(json.dumps(manifest))
    for template in templates(made):
        spec = template["spec"]
        for volume in spec.get("volumes", ()):
            if not Path(volume.get("hostPath", {}).get("path", "/")).exists():
                del volume["hostPath"]
                volume["emptyDir"] = {}
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            container["image"], container["imagePullPolicy"] = image, "Never"
            if container.get("restartPolicy") == "Always":
                # The fabric's daemon, whose program is in Google's image only.
                container["command"], container["args"] = ["sleep", "infinity"], []
                container.pop("startupProbe", None)
            for kind in container.get("resources", {}).values():
                kind.update({key: SMALL[key] for key in OWN if key in kind})
    return made


def templates(manifest: Manifest) -> list[dict[str, Any]]:
    roles = manifest.get("spec", {}).get("pytorchReplicaSpecs", {})
    return [role["template"] for role in roles.values()]


def equip(cluster: Cluster, template: dict[str, Any]) -> dict[str, str]:
    """Let the node advertise the devices and have the labels that a pod wants; the devices."""
    spec, api = template["spec"], cluster.api()
    wanted: dict[str, str] = {}
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        for key, value in container.get("resources", {}).get("limits", {}).items():
            if key not in OWN and "hugepages" not in key:
                wanted[key] = value
    labels = dict(spec.get("nodeSelector", {}))
    required = (
        spec.get("affinity", {})
        .get("nodeAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution", {"nodeSelectorTerms": []})
    )
    for term in required["nodeSelectorTerms"]:
        for each in term.get("matchExpressions", ()):
            if each["operator"] == "In":
                labels[each["key"]] = each["values"][0]
    path = f"/api/v1/nodes/{NODE}"
    body = {"metadata": {"labels": labels}, "spec": {"taints": [TAINT]}}
    assert api.ask("PATCH", path, body, content_type=PATCH).accepted
    status = {"status": {"capacity": wanted, "allocatable": wanted}}
    assert api.ask("PATCH", f"{path}/status", status, content_type=PATCH).accepted
    return wanted


@pytest.fixture(autouse=True)
def _node_is_plain_again(cluster: Cluster) -> Iterator[None]:
    yield
    body = {"spec": {"taints": None}}
    cluster.api().ask("PATCH", f"/api/v1/nodes/{NODE}", body, content_type=PATCH)


@pytest.mark.parametrize("name", [name for name in recipe_names() if is_for_kubernetes(name)])
def test_a_recipe_starts_in_a_pod_and_its_preflight_misses_the_devices(
    name: str, cluster: Cluster, namespace: str
) -> None:
    objects = objects_of(name, namespace)
    (job,) = [each for each in objects if each["kind"] == "PyTorchJob"]
    devices = equip(cluster, templates(job)[0])
    assert devices, "a recipe for GPUs asks for none"
    cluster.kubectl(
        "apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    )
    path = f"/api/v1/namespaces/{namespace}/pods"

    def preflight() -> tuple[dict[str, Any], dict[str, Any]] | None:
        for pod in cluster.api().ask("GET", path).body["items"]:
            for found in pod["status"].get("initContainerStatuses", ()):
                done = found["state"].get("terminated") or found.get("lastState", {}).get(
                    "terminated"
                )
                if found["name"] == "preflight" and done:
                    return pod, done
        return None

    until(lambda: preflight() is not None, f"the preflight check of {name}", 300)
    found = preflight()
    assert found is not None
    pod, done = found
    assert pod["spec"]["nodeName"] == NODE
    asked = pod["spec"]["containers"][0]["resources"]["limits"]
    assert {key: asked[key] for key in devices if key in asked}
    assert done["exitCode"] != 0
    log = ("logs", pod["metadata"]["name"], "-n", namespace, "-c", "preflight")
    # A container that was just started again has not said anything yet.
    until(lambda: "ST-PREFLIGHT-001" in cluster.kubectl(*log), f"the finding of {name}", 120)
    print(f"{name}: pod started with {devices}; preflight misses the device files")  # noqa: T201
