# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Runs from launch to delete in a real cluster, under the rendered Role and nothing more.

2 pods of 2 processes train with the real engine on processors, over the pods' network. A pod is
deleted in the middle; the losses must be those of a run that nobody has disturbed, to the bit.
"""

import json
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from seatrial.rendering.names import COMPONENT_LABEL, RUN_LABEL, Component
from seatrial.rendering.tensorboard import PORT
from tests.cluster import images
from tests.cluster.cluster import Cluster
from tests.cluster.scene import OPERATORS, Scene, lose_a_pod, until
from tests.cluster.toy_run import CLAIM, losses, starts

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(3000)]

STEPS = 120
SAVE_EVERY = 10
DELETE_AT = 25
"""The step after which a pod is deleted."""


@pytest.fixture(scope="module", params=OPERATORS)
def scene(
    request: pytest.FixtureRequest, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    made = Scene(cluster, request.param, tmp_path_factory.mktemp(request.param))
    yield made
    cluster.delete_namespace(made.namespace)


def test_a_run_trains_and_one_that_loses_a_pod_computes_the_same(scene: Scene) -> None:
    seatrial = scene.seatrial
    calm = scene.write_spec("calm", STEPS, SAVE_EVERY)
    assert seatrial.json("launch", calm)["is_new"]
    assert not seatrial.json("launch", calm)["is_new"]
    undisturbed = scene.succeeds("calm")
    assert sorted(undisturbed) == list(range(1, STEPS + 1))
    hit = lose_a_pod(scene, "hit", STEPS, SAVE_EVERY, DELETE_AT)
    assert losses(scene.volume, "hit") == undisturbed
    print(  # noqa: T201
        f"{scene.operator}: pod {hit.pod} deleted after step {DELETE_AT}, resumed at "
        f"{hit.resumed}; {len(undisturbed)} losses, 0 bits differ; {hit.lines} lines followed"
    )


def test_logs_of_one_rank_and_the_list_of_runs(scene: Scene) -> None:
    seatrial = scene.seatrial
    # Of the first pod: the Training Operator deletes others that it still takes for running when
    # that one has succeeded. The engine prints its steps on the last rank.
    text = seatrial.run("logs", "calm", "-n", scene.namespace, "--rank", 1)
    assert "saving checkpoint" in text or "(after 1 iterations)" in text, text[-2000:]
    assert all(" rank 1 " in line for line in text.splitlines())
    found = {line["run"]: line["state"] for line in seatrial.json("list", "-n", scene.namespace)}
    assert found == {"calm": "succeeded", "hit": "succeeded"}


@pytest.fixture
def _no_run_stays(scene: Scene) -> Iterator[None]:
    """A run that nothing has ended would take the machine from all tests that come."""
    yield
    left = ("delete", scene.operator, "long", "--ignore-not-found", "--wait=false")
    scene.cluster.kubectl(*left, "-n", scene.namespace)


@pytest.mark.usefixtures("_no_run_stays")
def test_stop_saves_and_launch_goes_on_and_delete_keeps_the_volume(scene: Scene) -> None:
    seatrial, namespace = scene.seatrial, scene.namespace
    # It has saved before, so that what the engine keeps for saving is there when it is stopped.
    long = scene.write_spec("long", 100_000, 2)
    seatrial.run("launch", long)
    until(lambda: scene.newest_step("long") >= 5, "training")
    assert seatrial.json("status", "long", "-n", namespace)["running"] == 2
    seatrial.run("stop", "long", "-n", namespace)
    assert not [name for name in scene.pods() if name.startswith("long")]
    saved = scene.newest_step("long")
    status = seatrial.json("status", "long", "-n", namespace)
    assert (status["state"], status["attempt"]) == ("stopped", 1)
    seatrial.run("wait", "long", "-n", namespace, code=5)
    assert seatrial.json("launch", long)["attempt"] == 2
    until(lambda: scene.newest_step("long") > saved, "going on")
    # It was asked to end between two steps, and has saved that very step.
    assert starts(scene.volume, "long")[-1] == saved
    seatrial.run("wait", "long", "-n", namespace, "--timeout", 0, code=6)
    for run in ("long", "calm", "hit"):
        seatrial.run("delete", run, "-n", namespace, "--yes")
    assert seatrial.json("list", "-n", namespace) == []
    assert (scene.volume / "calm" / "checkpoints").is_dir()
    scene.cluster.get("pvc", CLAIM, namespace)


def test_a_pod_that_cannot_be_placed_is_explained(scene: Scene) -> None:
    seatrial, namespace = scene.seatrial, scene.namespace
    spec = scene.write_spec("big", STEPS, SAVE_EVERY)
    seatrial.run("launch", spec, "cluster.image=docker.io/local/absent:1")

    def explained() -> bool:
        found = seatrial.json("status", "big", "-n", namespace)["reasons"]
        return any(reason["code"] == "ST-RUN-013" for reason in found)

    until(explained, "the reason", 180)
    text = seatrial.run("status", "big", "-n", namespace)
    assert "cannot pull the image docker.io/local/absent:1" in text
    assert "0 of 2 pods run" in text
    seatrial.run("delete", "big", "-n", namespace, "--yes")


def test_tensorboard_is_forwarded_to_loopback(scene: Scene) -> None:
    """Through the API server to a pod; a server of files stands in for TensorBoard."""
    container = {
        "name": "tensorboard",
        "image": images.USERLAND,
        "imagePullPolicy": "Never",
        "command": ["python3", "-m", "http.server", str(PORT), "--directory", "/usr"],
    }
    labels = {RUN_LABEL: "board", COMPONENT_LABEL: str(Component.TENSORBOARD)}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "board", "namespace": scene.namespace, "labels": labels},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }
    scene.cluster.kubectl("apply", "-f", "-", given=json.dumps(pod))
    scene.cluster.kubectl(
        *("wait", "pod/board", "-n", scene.namespace, "--for=condition=Ready", "--timeout=120s")
    )
    forward = scene.seatrial.started("forward", "board", "-n", scene.namespace, "--port", 0)
    try:
        assert forward.stdout is not None
        line = forward.stdout.readline()
        assert "http://127.0.0.1:" in line, line
        port = int(line.partition("http://127.0.0.1:")[2].split()[0])
        for _ in range(3):
            connection = HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/")
            answer = connection.getresponse()
            assert answer.status == 200
            assert b"Directory listing" in answer.read()
            connection.close()
    finally:
        forward.terminate()
        forward.communicate(timeout=30)
    scene.cluster.kubectl("delete", "pod", "board", "-n", scene.namespace)


def test_nothing_was_asked_for_that_the_role_denies_but_what_is_known(scene: Scene) -> None:
    """Which job a name has is asked of all operators; nodes are asked for to explain a wait."""
    kinds = {
        "pytorchjob": "pytorchjobs.kubeflow.org",
        "trainjob": "trainjobs.trainer.kubeflow.org",
        "hyperpod": "hyperpodpytorchjobs.sagemaker.amazonaws.com",
    }
    others = {name for operator, name in kinds.items() if operator != scene.operator}
    runtimes = {"trainingruntimes.trainer.kubeflow.org", "jobsets.jobset.x-k8s.io"}
    if scene.operator == "trainjob":
        runtimes = set()
    denied = scene.cluster.denied(scene.namespace)
    for each in denied:
        print(f"{scene.operator}: denied {each.verb} {each.resource}")  # noqa: T201
    unexpected = [
        each
        for each in denied
        if each.verb not in ("get", "list") or each.resource not in {*others, *runtimes, "nodes"}
    ]
    assert unexpected == []
