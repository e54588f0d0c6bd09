# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The node does what nodes do: pods, volumes, names, jobs of every kind, services."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.rendering.manifest import Manifest
from tests.cluster import images
from tests.cluster.cluster import Cluster
from tests.cluster.daemon import wait_until

# A name may be asked for before the cluster's DNS has heard of it.
UNTIL_KNOWN = "for _ in $(seq 240); do getent hosts {} && break; sleep 0.5; done; "
PYTORCHJOB_SCRIPT = UNTIL_KNOWN.format("try-master-0") + "echo rank $RANK of $WORLD_SIZE; sleep 3"
TRAINJOB_SCRIPT = (
    UNTIL_KNOWN.format("try-node-0-0.try--nodes")
    + "echo node $PET_NODE_RANK of $PET_NNODES; sleep 3"
)
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    name = cluster.new_namespace()
    yield name
    cluster.delete_namespace(name)


def pod_of(script: str, **more: object) -> Manifest:
    """A pod that runs a shell script."""
    container = {
        "name": "main",
        "image": images.USERLAND,
        "imagePullPolicy": "Never",
        "command": ["sh", "-euc", script],
        "resources": {"limits": {"cpu": "500m", "memory": "64Mi"}},
    }
    return {"restartPolicy": "Never", "containers": [container], **more}


def create(cluster: Cluster, namespace: str, version: str, kind: str, **parts: object) -> None:
    made: Manifest = {"apiVersion": version, "kind": kind}
    made["metadata"] = {"name": "try", "namespace": namespace}
    answer = cluster.api().create({**made, **parts}, {"fieldValidation": "Strict"})
    assert answer.accepted, answer.message


def logs(cluster: Cluster, namespace: str) -> dict[str, str]:
    """What the first container of each pod printed."""
    text = cluster.kubectl("get", "pods", "-n", namespace, "-o", "json")
    names = [each["metadata"]["name"] for each in json.loads(text)["items"]]
    return {name: cluster.kubectl("logs", name, "-n", namespace) for name in sorted(names)}


def wait_for(cluster: Cluster, namespace: str, kind: str, condition: str) -> None:
    """Wait until the object has the condition; a pod that failed ends the wait at once."""

    def met() -> bool:
        pods = json.loads(cluster.kubectl("get", "pods", "-n", namespace, "-o", "json"))["items"]
        failed = [each for each in pods if each.get("status", {}).get("phase") == "Failed"]
        assert not failed, logs(cluster, namespace)
        found = cluster.get(kind, "try", namespace).get("status", {}).get("conditions") or []
        return any(each["type"] == condition and each["status"] == "True" for each in found)

    wait_until(met, f"{kind} is {condition}")


def test_a_pod_has_its_limits_and_writes_to_a_volume(cluster: Cluster, namespace: str) -> None:
    directory = cluster.offer_volume(namespace, "data", "shared", gib=1)
    claim = {"accessModes": ["ReadWriteMany"], "storageClassName": "shared"}
    claim["resources"] = {"requests": {"storage": "1Gi"}}  # type: ignore[assignment]
    answer = cluster.api().create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": namespace},
            "spec": claim,
        }
    )
    assert answer.accepted, answer.message
    pod = pod_of(
        "id -u > /data/user; cat /sys/fs/cgroup/memory/memory.limit_in_bytes"
        " /sys/fs/cgroup/memory.max 2>/dev/null > /data/memory || true",
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        securityContext={"runAsUser": 1000, "runAsNonRoot": True},
    )
    pod["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    create(cluster, namespace, "v1", "Pod", spec=pod)
    _wait_for_phase(cluster, namespace, "Succeeded")
    assert (directory / "user").read_text().strip() == "1000"
    assert int((directory / "memory").read_text()) == 64 * 2**20


def test_an_indexed_job_finds_its_pods_by_name(cluster: Cluster, namespace: str) -> None:
    create(
        cluster,
        namespace,
        "v1",
        "Service",
        spec={
            "clusterIP": "None",
            "selector": {"job-name": "try"},
            "publishNotReadyAddresses": True,
        },
    )
    other = "try-$((1 - JOB_COMPLETION_INDEX)).try"
    # Each waits for the other, so that both run at once.
    script = f"{UNTIL_KNOWN.format(other)} sleep 5"
    job = {
        "completions": 2,
        "parallelism": 2,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "template": {"spec": pod_of(script, subdomain="try")},
    }
    create(cluster, namespace, "batch/v1", "Job", spec=job)
    wait_for(cluster, namespace, "job", "Complete")
    assert all("10.244.0." in text for text in logs(cluster, namespace).values())


def test_a_pytorchjob_succeeds(cluster: Cluster, namespace: str) -> None:
    pod = pod_of(PYTORCHJOB_SCRIPT)
    pod["containers"][0]["name"] = "pytorch"
    role = {"replicas": 1, "restartPolicy": "OnFailure", "template": {"spec": pod}}
    spec = {
        "runPolicy": {"cleanPodPolicy": "None"},
        "pytorchReplicaSpecs": {"Master": role, "Worker": role},
    }
    create(cluster, namespace, "kubeflow.org/v1", "PyTorchJob", spec=spec)
    wait_for(cluster, namespace, "pytorchjob", "Succeeded")
    printed = logs(cluster, namespace)
    assert "rank 0 of 2" in printed["try-master-0"]
    assert "rank 1 of 2" in printed["try-worker-0"]


def test_a_trainjob_completes(cluster: Cluster, namespace: str) -> None:
    pod = pod_of(TRAINJOB_SCRIPT)
    pod["containers"][0]["name"] = "node"
    step = {"name": "node", "template": {"spec": {"template": {"spec": pod}}}}
    step["template"]["metadata"] = {  # type: ignore[index]
        "labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    }
    runtime = {
        "mlPolicy": {"numNodes": 2, "torch": {}},
        # As rendered: Trainer's own PET_MASTER_ADDR names the default service, which is not made.
        "template": {
            "spec": {"network": {"subdomain": "try--nodes"}, "replicatedJobs": [step]},
        },
    }
    version = "trainer.kubeflow.org/v1alpha1"
    create(cluster, namespace, version, "TrainingRuntime", spec=runtime)
    reference = {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "try"}
    # Trainer sets its variables only in a job that says something of the trainer.
    job = {"runtimeRef": reference, "trainer": {"numNodes": 2}}
    create(cluster, namespace, version, "TrainJob", spec=job)
    wait_for(cluster, namespace, "trainjob", "Complete")
    printed = "".join(logs(cluster, namespace).values())
    assert printed.count("10.244.0.") == 2
    assert "node 0 of 2" in printed
    assert "node 1 of 2" in printed


def test_a_service_answers_at_its_own_address(cluster: Cluster, namespace: str) -> None:
    # The one that every cluster has; its address exists only in the rules of kube-proxy.
    ask = (
        "getent hosts kubernetes.default; timeout 20 bash -c ': < /dev/tcp/kubernetes.default/443'"
    )
    create(cluster, namespace, "v1", "Pod", spec=pod_of(ask))
    _wait_for_phase(cluster, namespace, "Succeeded")
    assert "10.96.0.1" in logs(cluster, namespace)["try"]


def test_the_workers_environment_is_in_every_pod(cluster: Cluster, namespace: str) -> None:
    base = json.loads((cluster.home / "containerd/container.json").read_text())
    shown = [mount["source"] for mount in base["mounts"]]
    assert any(Path(source).name == "src" for source in shown)
    script = "test -f /opt/seatrial/src/seatrial/worker/megatron/pod.py"
    if any("venv" in source for source in shown):
        script += " && python3 -c 'import megatron.core, seatrial.version, torch'"
    pod = pod_of(script)
    pod["containers"][0]["resources"] = {"limits": {"memory": "2Gi"}}
    create(cluster, namespace, "v1", "Pod", spec=pod)
    _wait_for_phase(cluster, namespace, "Succeeded")


def _wait_for_phase(cluster: Cluster, namespace: str, phase: str) -> None:
    ended = ("Succeeded", "Failed")
    wait_until(lambda: _phase(cluster, namespace) in ended, "the pod has ended")
    assert _phase(cluster, namespace) == phase, logs(cluster, namespace)


def _phase(cluster: Cluster, namespace: str) -> str:
    return str(cluster.get("pod", "try", namespace)["status"].get("phase"))
