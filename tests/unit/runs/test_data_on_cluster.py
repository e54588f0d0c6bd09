# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Preparing data in pods: three jobs in turn, each found again by the next try."""

import json
from typing import Any

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.cluster.kinds import POD
from seatrial.cluster.transport import DroppedError, Json
from seatrial.errors import FindingsError
from seatrial.rendering.rules import unnamed_place
from seatrial.runs.data_on_cluster import Progress, prepare_on_cluster
from seatrial.runs.site import Site
from tests.conftest import resolved
from tests.unit.cluster.fake_api import FakeTime, FakeTransport, fake_api, once

RAW = "data={sources: [{from: 's3://corpus/raw'}], tokenizer: 'hf://gpt2'}"
LISTED = {"address": "/data/slim-7b/data/work/0123456789ab/tasks.jsonl", "tasks": 3, "done": 0}
ENDED = {"address": "/data/slim-7b/data", "tokens": 12345}


def jobs(server: FakeTransport) -> dict[str, Json]:
    return {name: item for (plural, _, name), item in server.objects.items() if plural == "jobs"}


def completes(server: FakeTransport, failing: str = "") -> None:
    """Let every job that is there end, with a pod that says what the command prints."""
    for name, job in jobs(server).items():
        if job.get("status"):
            continue
        kind = "Failed" if name == failing else "Complete"
        entry = {"type": kind, "status": "True", "message": "Job has reached its limit"}
        job["status"] = {"conditions": [entry], "succeeded": job["spec"].get("completions", 1)}
        said = {"slim-7b-data-list": LISTED, "slim-7b-data-end": ENDED}.get(name)
        pod = f"{name}-pod"
        done = {"name": "prepare", "state": {"terminated": {"exitCode": 0}}}
        server.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "namespace": "default",
                    "name": pod,
                    "labels": {"batch.kubernetes.io/job-name": name},
                },
                "spec": {"containers": []},
                "status": {"phase": "Succeeded", "containerStatuses": [done]},
            }
        )
        if said is not None:
            lines = json.dumps(said, indent=2).splitlines()
            stamped = [f"2026-11-15T03:12:00.{i:03}Z {t}".encode() for i, t in enumerate(lines)]
            server.streams[POD.path("default", pod, "log")] = [list(stamped), list(stamped)]


def prepared(server: FakeTransport, failing: str = "", seen: list[Progress] | None = None) -> Any:
    time = FakeTime()
    time.on_sleep = lambda: completes(server, failing)
    site = Site(fake_api(server, time), "default", sleep=time.sleep, clock=time.clock)
    told = seen if seen is not None else []
    plan = resolved(RAW)
    return prepare_on_cluster(site, plan, Catalog(), unnamed_place, told.append)


def test_a_list_is_frozen_then_each_task_is_a_pod_then_all_is_put_together() -> None:
    server, seen = FakeTransport(), []  # type: ignore[var-annotated]
    assert prepared(server, seen=seen) == ENDED
    created = [c.body["metadata"]["name"] for c in server.calls if c.method == "POST" and c.body]
    assert created == ["slim-7b-data-list", "slim-7b-data", "slim-7b-data-end"]
    indexed = jobs(server)["slim-7b-data"]
    assert indexed["spec"]["completions"] == 3
    words = indexed["spec"]["template"]["spec"]["containers"][0]["command"]
    assert f"--list={LISTED['address']}" in words
    assert {p.step for p in seen} == {"listing", "tasks", "putting together"}
    assert Progress("tasks", 3, 3) in seen


def test_the_same_command_again_does_not_start_what_is_done() -> None:
    server = FakeTransport()
    prepared(server)
    before = {name: job["metadata"]["uid"] for name, job in jobs(server).items()}
    assert prepared(server) == ENDED
    assert {name: job["metadata"]["uid"] for name, job in jobs(server).items()} == before


def test_a_job_that_failed_is_told_and_made_anew_by_the_next_try() -> None:
    server = FakeTransport()
    with pytest.raises(FindingsError, match="what is done is kept"):
        prepared(server, failing="slim-7b-data")
    failed = jobs(server)["slim-7b-data"]["metadata"]["uid"]
    assert prepared(server) == ENDED
    assert jobs(server)["slim-7b-data"]["metadata"]["uid"] != failed


def test_a_lost_answer_makes_no_second_job() -> None:
    server = FakeTransport()
    server.after.append(once(DroppedError("reset"), "POST", "jobs"))
    assert prepared(server) == ENDED
    assert len(jobs(server)) == 3
