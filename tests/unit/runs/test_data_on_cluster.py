# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Preparing data in pods: the three jobs of `render --part data` in turn, each found again."""

import json
from typing import Any

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.cluster.kinds import POD
from seatrial.cluster.transport import DroppedError, Json
from seatrial.errors import FindingsError
from seatrial.rendering.attempt import Attempt, own_digest
from seatrial.rendering.render import Part, render
from seatrial.rendering.rules import unnamed_place
from seatrial.runs.data.prepare import (
    GIVE_UP_SECONDS,
    REMOVAL_SECONDS,
    JobProgress,
    prepare_on_cluster,
)
from seatrial.runs.namespace import Site
from tests.conftest import resolved
from tests.unit.cluster.fake_api import FakeTime, FakeTransport, fake_api, once

RAW = "data={sources: [{from: 's3://corpus/raw'}], tokenizer: 'hf://gpt2'}"
IMAGE = "cluster.preparation.image=registry.example.com/data:1"
FINISHED = 2
"""How listing ends where a data set is."""
LISTED = {"address": "/data/slim-7b/data/work/0123456789ab/tasks.jsonl", "tasks": 3, "done": 0}
ENDED = {"address": "/data/slim-7b/data", "tokens": 12345}


def jobs(server: FakeTransport) -> dict[str, Json]:
    return {name: item for (plural, _, name), item in server.objects.items() if plural == "jobs"}


def pod_of(job: Json, **status: Any) -> Json:
    """A pod of a job, as Kubernetes makes it."""
    name = job["metadata"]["name"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": "default",
            "name": f"{name}-pod",
            "labels": {"batch.kubernetes.io/job-name": name},
            "ownerReferences": [{"kind": "Job", "uid": job["metadata"]["uid"]}],
        },
        "spec": {"containers": []},
        "status": status,
    }


def completes(server: FakeTransport, failing: str = "", listed: Json = LISTED) -> None:
    """Let every job that is there end, with a pod that says what the command prints."""
    for name, job in jobs(server).items():
        if job.get("status"):
            continue
        kind = "Failed" if name == failing else "Complete"
        entry = {"type": kind, "status": "True", "message": "Job has reached its limit"}
        job["status"] = {"conditions": [entry], "succeeded": job["spec"].get("completions", 1)}
        said = {"slim-7b--data-list": listed, "slim-7b--data-end": ENDED}.get(name)
        pod = f"{name}-pod"
        code = FINISHED if name == failing == "slim-7b--data-list" else 0
        done = {"name": "prepare", "state": {"terminated": {"exitCode": code}}}
        phase = "Failed" if name == failing else "Succeeded"
        server.put(pod_of(job, phase=phase, containerStatuses=[done]))
        if said is not None:
            lines = json.dumps(said, indent=2).splitlines()
            stamped = [f"2026-11-15T03:12:00.{i:03}Z {t}".encode() for i, t in enumerate(lines)]
            server.streams[POD.path("default", pod, "log")] = [list(stamped), list(stamped)]


def prepared(
    server: FakeTransport,
    failing: str = "",
    seen: list[JobProgress] | None = None,
    listed: Json = LISTED,
    words: tuple[str, ...] = (IMAGE,),
) -> Any:
    time = FakeTime()
    time.on_sleep = lambda: completes(server, failing, listed)
    told = seen if seen is not None else []
    plan = resolved(RAW, *words)
    return prepare_on_cluster(site_in(server, time), plan, Catalog(), unnamed_place, told.append)


def site_in(server: FakeTransport, time: FakeTime, heard: list[str] | None = None) -> Site:
    told = heard if heard is not None else []
    api = fake_api(server, time)
    return Site(api, "default", told.append, sleep=time.sleep, clock=time.clock)


def uid_of(server: FakeTransport, name: str) -> str:
    return str(jobs(server)[name]["metadata"]["uid"])


def test_the_objects_are_those_of_render() -> None:
    server = FakeTransport()
    prepared(server)
    posts = [call.body for call in server.calls if call.method == "POST"]
    wanted = render(
        resolved(RAW, IMAGE), Catalog(), Part.DATA, Attempt(code_digest=own_digest())
    ).manifests
    assert posts == list(wanted)
    assert [each["kind"] for each in wanted[-3:]] == ["Job"] * 3


def test_the_spec_of_a_run_that_trains_is_not_touched() -> None:
    server = FakeTransport()
    prepared(server)
    maps = [name for plural, _, name in server.objects if plural == "configmaps"]
    assert maps == ["slim-7b--data-spec"]


def test_a_list_is_frozen_then_pods_run_the_tasks_then_all_is_put_together() -> None:
    server, seen = FakeTransport(), []  # type: ignore[var-annotated]
    assert prepared(server, seen=seen) == ENDED
    posts = [c for c in server.calls if c.method == "POST" and c.path.endswith("/jobs")]
    created = [c.body["metadata"]["name"] for c in posts if c.body]
    assert created == ["slim-7b--data-list", "slim-7b--data", "slim-7b--data-end"]
    indexed = jobs(server)["slim-7b--data"]
    assert indexed["spec"]["completions"] == 4
    assert {p.step for p in seen} == {"listing", "tasks", "assembling"}
    assert JobProgress("tasks", 4, 4) in seen


def test_what_is_done_by_the_list_is_not_started_again() -> None:
    server = FakeTransport()
    prepared(server)
    tasks = uid_of(server, "slim-7b--data")
    assert prepared(server, listed=LISTED | {"done": 3}) == ENDED
    assert uid_of(server, "slim-7b--data") == tasks


def test_a_job_that_is_over_is_not_trusted() -> None:
    # Its corpus may be another by now, or its files removed: the list, made anew, decides.
    server = FakeTransport()
    prepared(server)
    before = {name: uid_of(server, name) for name in jobs(server)}
    other = {**LISTED, "address": "/data/slim-7b/data/work/ba9876543210/tasks.jsonl"}
    assert prepared(server, listed=other) == ENDED
    assert all(uid_of(server, name) != uid for name, uid in before.items())


def test_a_job_that_goes_on_is_waited_for_if_its_inputs_are_the_same() -> None:
    server, time = FakeTransport(), FakeTime()

    class DiedError(Exception):
        """The end of the command that began it."""

    def dies() -> None:
        raise DiedError

    time.on_sleep = dies
    with pytest.raises(DiedError):
        prepare_on_cluster(site_in(server, time), resolved(RAW, IMAGE), Catalog(), unnamed_place)
    begun = uid_of(server, "slim-7b--data-list")
    assert prepared(server) == ENDED
    assert uid_of(server, "slim-7b--data-list") == begun


def test_a_job_of_another_image_is_made_anew() -> None:
    server = FakeTransport()
    time = FakeTime()
    time.on_sleep = lambda: (_ for _ in ()).throw(InterruptedError)
    with pytest.raises(InterruptedError):
        prepare_on_cluster(site_in(server, time), resolved(RAW, IMAGE), Catalog(), unnamed_place)
    begun = uid_of(server, "slim-7b--data-list")
    assert prepared(server, words=(IMAGE.replace(":1", ":2"),)) == ENDED
    assert uid_of(server, "slim-7b--data-list") != begun


def test_what_a_pod_of_the_job_before_has_printed_is_not_read() -> None:
    server = FakeTransport()
    before = {"metadata": {"name": "slim-7b--data-end", "uid": "of-the-job-before"}}
    stale = pod_of(before, phase="Succeeded")
    stale["metadata"]["name"] = "stale"
    server.put(stale)
    lines: list[bytes | Exception] = [
        b"2026-11-15T03:11:00Z {",
        b'2026-11-15T03:11:00Z "tokens": 1}',
    ]
    server.streams[POD.path("default", "stale", "log")] = [lines]
    assert prepared(server) == ENDED


def test_a_data_set_that_is_there_is_looked_at_by_the_last_step() -> None:
    server = FakeTransport()
    assert prepared(server, failing="slim-7b--data-list") == ENDED
    assert sorted(jobs(server)) == ["slim-7b--data-end", "slim-7b--data-list"]


def test_an_image_that_nobody_can_pull_is_refused_before_anything_is_touched() -> None:
    server = FakeTransport()
    with pytest.raises(FindingsError, match="not published and cannot be pulled"):
        prepared(server, words=())
    assert not [call for call in server.calls if call.method != "GET"]


def test_the_projects_own_image_for_data_prepares_them_in_jobs() -> None:
    # A RayJob would need more of the image, and none is submitted.
    own = "cluster.preparation.image=registry.example.com/worker-data:0.1.0"
    server = FakeTransport()
    assert prepared(server, words=(own,)) == ENDED
    assert not [name for plural, _, name in server.objects if plural == "rayjobs"]


def waits(server: FakeTransport, status: dict[str, Any]) -> tuple[FakeTime, list[str]]:
    """Prepare while the pod of the first job stays as it is; when it ended, and what was told."""
    time, heard = FakeTime(), []  # type: ignore[var-annotated]

    def comes_up() -> None:
        job = jobs(server)["slim-7b--data-list"]
        job["status"] = {"active": 1, "ready": 0}
        server.put(pod_of(job, **status))

    time.on_sleep = comes_up
    plan = resolved(RAW, IMAGE)
    with pytest.raises(FindingsError) as raised:
        prepare_on_cluster(site_in(server, time, heard), plan, Catalog(), unnamed_place)
    return time, [*heard, str(raised.value)]


def test_an_image_that_cannot_be_pulled_is_told_and_not_waited_for_without_end() -> None:
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
    container = {"name": "prepare", "image": "registry.example.com/data:1", "state": state}
    time, said = waits(FakeTransport(), {"phase": "Pending", "containerStatuses": [container]})
    assert len(said) == 2
    for text in said:
        assert "cannot pull the image registry.example.com/data:1" in text
        assert "cluster.preparation.image" in text
    assert GIVE_UP_SECONDS <= time.now < GIVE_UP_SECONDS + 60


def test_a_pod_without_a_node_is_explained_and_waited_for() -> None:
    server, time, heard = FakeTransport(), FakeTime(), []  # type: ignore[var-annotated]
    said = "0/3 nodes are available: 3 Insufficient cpu."
    unplaced = {"type": "PodScheduled", "status": "False", "message": said}

    def comes_up() -> None:
        # Room comes after longer than nobody would wait for an image.
        if time.now > GIVE_UP_SECONDS * 2:
            completes(server)
        elif "slim-7b--data-list" in jobs(server):
            job = jobs(server)["slim-7b--data-list"]
            server.put(pod_of(job, phase="Pending", conditions=[unplaced]))

    time.on_sleep = comes_up
    site, plan = site_in(server, time, heard), resolved(RAW, IMAGE)
    assert prepare_on_cluster(site, plan, Catalog(), unnamed_place) == ENDED
    assert len(heard) == 1
    assert "slim-7b--data-list-pod: no node has free cpu" in heard[0]


def test_pods_of_the_job_before_that_do_not_end_are_told() -> None:
    server = FakeTransport()
    prepared(server)
    server.put(pod_of(jobs(server)["slim-7b--data-list"], phase="Running"))
    with pytest.raises(
        FindingsError,
        match=f"within {REMOVAL_SECONDS:.0f} s. Still present: slim-7b--data-list-pod",
    ):
        prepared(server)


def test_a_job_that_failed_is_told_and_made_anew_by_the_next_try() -> None:
    server = FakeTransport()
    with pytest.raises(FindingsError, match="completed tasks are kept"):
        prepared(server, failing="slim-7b--data")
    failed = jobs(server)["slim-7b--data"]["metadata"]["uid"]
    assert prepared(server) == ENDED
    assert jobs(server)["slim-7b--data"]["metadata"]["uid"] != failed


def test_a_lost_answer_makes_no_second_job() -> None:
    server = FakeTransport()
    server.after.append(once(DroppedError("reset"), "POST", "jobs"))
    assert prepared(server) == ENDED
    assert len(jobs(server)) == 3
