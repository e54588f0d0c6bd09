# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A pod that reads a run's volume: least rights, streamed back, gone afterwards."""

import json
from typing import Any

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.cluster.kinds import POD
from seatrial.errors import FindingsError
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.context import scene_of
from seatrial.rendering.reader_pod import (
    VolumeCommand,
    VolumeReading,
    reader_pod,
    weights_gib,
)
from seatrial.runs.data.reader_pod import read_inside
from seatrial.runs.launch.launcher import Wanted
from seatrial.runs.namespace import Site
from tests.conftest import resolved
from tests.unit.cluster.fake_api import FakeTime, FakeTransport, fake_api
from tests.unit.runs.fake_cluster import launch, site_of


def read(
    server: FakeTransport, status: dict[str, Any], heard: list[str] | None = None
) -> tuple[int, list[str]]:
    """Run a command in a pod that comes to a status."""
    time, said = FakeTime(), heard if heard is not None else []

    def comes_up() -> None:
        for (plural, _, name), item in list(server.objects.items()):
            if plural == "pods" and not item.get("status"):
                item["status"] = status
                path = POD.path("default", name, "log")
                server.streams[path] = [[b"2026-11-15T03:12:00Z all is well"]]

    time.on_sleep = comes_up
    site = Site(fake_api(server, time), "default", sleep=time.sleep, clock=time.clock)
    words = ["data", "verify", "/data/slim-7b/data"]
    return read_inside(site, resolved(), Catalog(), VolumeCommand(tuple(words)), said.append), said


@pytest.mark.parametrize("code", [0, 1])
def test_what_the_command_prints_and_its_code_come_back_and_the_pod_goes(code: int) -> None:
    server = FakeTransport()
    ended = [{"name": "read", "state": {"terminated": {"exitCode": code}}}]
    phase = "Failed" if code else "Succeeded"
    assert read(server, {"phase": phase, "containerStatuses": ended}) == (code, ["all is well"])
    # The spec that it was given goes with it.
    assert not server.objects


def test_the_spec_of_a_launched_run_stays_as_it_was_launched() -> None:
    server = FakeTransport()
    launch(site_of(server), Wanted(resolved("training.seed=7"), Catalog()), lambda _: False)
    before = json.dumps([[*key, item] for key, item in server.objects.items()])
    ended = [{"name": "read", "state": {"terminated": {"exitCode": 0}}}]
    read(server, {"phase": "Succeeded", "containerStatuses": ended})
    assert json.dumps([[*key, item] for key, item in server.objects.items()]) == before
    # The command works with the spec that it was started with.
    posts = [call.body for call in server.calls if call.method == "POST" and call.body]
    (pod,) = [each for each in posts if each["kind"] == "Pod"]
    name = pod["metadata"]["name"]
    spec = next(each for each in pod["spec"]["volumes"] if each["name"] == "spec")
    assert spec["configMap"]["name"] == name
    (given,) = [e for e in posts if e["kind"] == "ConfigMap" and name in str(e["metadata"])]
    assert '"seed": 7' not in given["data"]["run.yaml"]


def test_the_pod_can_only_read() -> None:
    server = FakeTransport()
    ended = [{"name": "read", "state": {"terminated": {"exitCode": 0}}}]
    read(server, {"phase": "Succeeded", "containerStatuses": ended})
    made = next(c.body for c in server.calls if c.method == "POST" and c.path.endswith("/pods"))
    assert made is not None
    spec = made["spec"]
    (container,) = spec["containers"]
    assert container["command"][-3:] == ["data", "verify", "/data/slim-7b/data"]
    storage = next(m for m in container["volumeMounts"] if m["name"] == "storage")
    assert storage["readOnly"]
    assert spec["automountServiceAccountToken"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "secret" not in str(spec["volumes"])


def test_a_pod_that_does_not_start_is_explained_and_removed() -> None:
    server = FakeTransport()
    state = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    waits = [{"name": "read", "image": "x:1", "state": state}]
    with pytest.raises(FindingsError, match="cannot pull the image x:1"):
        read(server, {"phase": "Pending", "containerStatuses": waits})
    assert not [key for key in server.objects if key[0] == "pods"]


def test_a_pod_that_is_followed_goes_when_the_command_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    monkeypatch.setattr("atexit.register", kept.append)
    monkeypatch.setattr("atexit.unregister", kept.remove)
    server, during = FakeTransport(), []
    ended = [{"name": "read", "state": {"terminated": {"exitCode": 0}}}]

    class Said(list[str]):
        def append(self, line: str) -> None:
            # As the end of the command would, in the midst of what the pod prints.
            during.append(len(kept))
            kept[0]()
            assert not [key for key in server.objects if key[0] == "pods"]
            super().append(line)

    read(server, {"phase": "Running", "containerStatuses": ended}, Said())
    assert (during, kept) == ([1], [])


def pod_of(reading: VolumeReading, *overrides: str) -> dict[str, Any]:
    """The pod of a command, as it is submitted."""
    scene = scene_of(resolved(*overrides), Catalog(), Attempt())
    command = VolumeCommand(("checkpoints", "list", "/data/x"), reading)
    return dict(reader_pod(scene, command, "1")["spec"])


def test_what_verifies_may_write_down_what_it_finds() -> None:
    (container,) = pod_of(VolumeReading.NOTES)["containers"]
    storage = next(m for m in container["volumeMounts"] if m["name"] == "storage")
    assert "readOnly" not in storage
    assert container["image"] == pod_of(VolumeReading.LOOKS)["containers"][0]["image"]


def test_an_export_has_the_engine_and_memory_for_a_layer() -> None:
    own = pod_of(VolumeReading.EXPORTS, "cluster.image=registry.example/worker:1")
    assert "initContainers" not in own
    (container,) = own["containers"]
    assert container["image"] == "registry.example/worker:1"
    # gpt3-7.5b: 36 layers of some 0.2 B parameters, three times in single precision.
    assert weights_gib(resolved().model, VolumeReading.LOOKS) == 0
    assert weights_gib(resolved().model, VolumeReading.EXPORTS) == 3
    # All of it, twice in single precision.
    assert weights_gib(resolved().model, VolumeReading.COMPARES) == 56
    assert container["resources"]["limits"]["memory"] == "7Gi"


def test_an_image_without_the_engine_gets_it_before_the_export() -> None:
    spec = pod_of(VolumeReading.EXPORTS)
    (install,) = spec["initContainers"]
    assert install["name"] == "install"
    (container,) = spec["containers"]
    site = next(each["value"] for each in container["env"] if each["name"] == "PYTHONPATH")
    for one in (install, container):
        assert site in [mount["mountPath"] for mount in one["volumeMounts"]]
    named = {volume["name"] for volume in spec["volumes"]}
    for one in (install, container):
        assert {mount["name"] for mount in one["volumeMounts"]} <= named
