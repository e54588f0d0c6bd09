# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Stopping and deleting runs, and pods that are waited for before the next attempt."""

from typing import Any

import pytest

from seatrial.cluster.transport import Json
from seatrial.errors import FindingsError
from seatrial.rendering.rules import unnamed_place
from seatrial.runs.data.prepare import prepare_on_cluster
from seatrial.runs.launch.launcher import Launched
from seatrial.runs.ledger.ledger import AttemptOutcome, Ledger
from seatrial.runs.status.status import status
from seatrial.runs.stop import REMOVAL_SECONDS, delete, stop
from tests.unit.cluster.fake_api import FakeTime, FakeTransport
from tests.unit.runs.fake_cluster import (
    jobs,
    launch,
    pod_of,
    running,
    site_of,
    wanted,
)

RUN = wanted().plan.spec.name


def never(_: object) -> bool:
    return False


def launched(server: FakeTransport, *overrides: str, agree: bool = False) -> Launched:
    return launch(site_of(server), wanted(*overrides), lambda _: agree)


def ledger(server: FakeTransport) -> Ledger:
    return site_of(server).ledgers.read(RUN)


def test_stopping_keeps_volumes_and_ledger_and_a_launch_goes_on() -> None:
    server = FakeTransport()
    launched(server)
    done = stop(site_of(server), RUN)
    assert done.was_running
    assert not jobs(server)
    assert ("persistentvolumeclaims", site_of(server).namespace, RUN) in server.objects
    assert [a.outcome for a in ledger(server).attempts] == [AttemptOutcome.STOPPED]
    assert status(site_of(server), RUN).state == "stopped"
    assert not stop(site_of(server), RUN).was_running
    assert launched(server).attempt == 2


def test_pods_that_do_not_end_keep_the_next_attempt_from_starting() -> None:
    server = FakeTransport()
    launched(server)
    server.put(pod_of(jobs(server)[0], 0, **running()))
    with pytest.raises(FindingsError, match="has not exited"):
        launched(server, "training.seed=7", agree=True)
    assert not jobs(server)
    assert [a.outcome for a in ledger(server).attempts] == [AttemptOutcome.REPLACED]


def pod_of_train_job(run: str, attempt: str = "1", **status: Any) -> Json:
    """A training pod as JobSet's Job makes it."""
    labels = {"seatrial.dev/run": run, "app.kubernetes.io/component": "training"}
    labels["seatrial.dev/attempt"] = attempt
    owner = {"kind": "Job", "name": f"{run}-node-0", "uid": "of-the-job"}
    head: Json = {"name": f"{run}-node-0-0-x2x4z", "namespace": "default", "labels": labels}
    head |= {"ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": head, "spec": {}, "status": status}


@pytest.mark.parametrize("operator", ["pytorchjob", "trainjob"])
@pytest.mark.parametrize("command", ["launch", "stop", "delete"])
def test_pods_that_an_interrupted_stop_left_are_waited_for(operator: str, command: str) -> None:
    server, time = FakeTransport(), FakeTime()
    words = f"cluster.operator={operator}"
    launched(server, words)
    (job,) = jobs(server)
    trains = operator == "trainjob"
    pod = server.put(pod_of_train_job(RUN) if trains else pod_of(job, 0))
    pod["status"] = running()
    time.on_sleep = lambda: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        stop(site_of(server, time), RUN)
    assert not jobs(server)

    def ends() -> None:
        # Nothing of the next attempt is there while the old pod runs.
        assert not jobs(server)
        if time.now > 5:
            server.objects.pop(("pods", "default", pod["metadata"]["name"]), None)

    time.on_sleep = ends
    site = site_of(server, time)
    if command == "launch":
        assert launch(site, wanted(words), never).attempt == 2
    elif command == "stop":
        assert not stop(site, RUN).was_running
    else:
        delete(site, RUN, volumes=True)
    assert time.now > 5


def test_a_copy_of_a_pod_keeps_nobody_waiting() -> None:
    server = FakeTransport()
    launched(server)
    copied = pod_of(jobs(server)[0], 0, **running())
    del copied["metadata"]["ownerReferences"]
    copied["metadata"]["name"] = "debug"
    stop(site_of(server), RUN)
    server.put(copied)
    assert launched(server).attempt == 2


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize("is_removed", [True, False])
def test_pods_that_have_ended_are_waited_for_until_they_are_removed(
    phase: str, is_removed: bool
) -> None:
    server, time = FakeTransport(), FakeTime()
    launched(server, "cluster.operator=trainjob")
    server.put(pod_of_train_job(RUN, phase=phase))
    pods = [key for key in server.objects if key[0] == "pods"]

    def removes() -> None:
        # The Job controller takes the finalizer away some time after the containers have ended.
        if is_removed and time.now >= 3:
            for key in pods:
                server.objects.pop(key, None)

    time.on_sleep = removes
    site = site_of(server, time)
    assert stop(site, RUN).was_running
    assert launch(site, wanted("cluster.operator=trainjob"), never).attempt == 2
    # Both commands wait, and neither without end.
    assert time.now == (3 if is_removed else 2 * REMOVAL_SECONDS)


def test_a_pod_with_the_label_of_the_attempt_before_is_waited_for() -> None:
    """Trainer may read the runtime from a cache that lacks the newest attempt."""
    server, time = FakeTransport(), FakeTime()
    launched(server, "cluster.operator=trainjob")
    server.put(pod_of_train_job(RUN, attempt="0", phase="Running"))
    with pytest.raises(FindingsError, match="has not exited"):
        stop(site_of(server, time), RUN)


@pytest.mark.parametrize("kind", ["JobSet", "Job"])
def test_what_may_still_make_pods_is_waited_for(kind: str) -> None:
    server, time = FakeTransport(), FakeTime()
    launched(server, "cluster.operator=trainjob")
    is_set = kind == "JobSet"
    owner = {"kind": "TrainJob" if is_set else "JobSet", "name": RUN, "uid": "1"}
    name = RUN if is_set else f"{RUN}-node-0"
    head = {"name": name, "namespace": "default", "ownerReferences": [owner]}
    api = "jobset.x-k8s.io/v1alpha2" if is_set else "batch/v1"
    server.put({"apiVersion": api, "kind": kind, "metadata": head})
    plural = "jobsets" if is_set else "jobs"

    def collects() -> None:
        if time.now >= 4:
            server.objects.pop((plural, "default", name), None)

    time.on_sleep = collects
    stop(site_of(server, time), RUN)
    assert time.now == 4


@pytest.mark.parametrize("volumes", [True, False])
def test_a_run_that_has_only_prepared_data_is_deleted(volumes: bool) -> None:
    server, time = FakeTransport(), FakeTime()
    image = "cluster.preparation.image=registry.example.com/data:1"
    raw = "data={sources: [{from: 's3://corpus/raw'}], tokenizer: 'hf://gpt2'}"
    time.on_sleep = lambda: (_ for _ in ()).throw(InterruptedError)
    run = wanted(raw, image)
    with pytest.raises(InterruptedError):
        prepare_on_cluster(site_of(server, time), run.plan, run.catalog, unnamed_place)
    assert ("jobs", "default", f"{RUN}--data-list") in server.objects
    done = delete(site_of(server), RUN, volumes=volumes)
    assert f"Job {RUN}--data-list" in done.removed
    claim = ("persistentvolumeclaims", "default", RUN)
    assert list(server.objects) == ([] if volumes else [claim])
    if volumes:
        with pytest.raises(FindingsError, match="no run"):
            delete(site_of(server), RUN, volumes=volumes)


@pytest.mark.parametrize("volumes", [True, False])
def test_deleting_removes_all_but_the_volume(volumes: bool) -> None:
    server = FakeTransport()
    launched(server)
    done = delete(site_of(server), RUN, volumes=volumes)
    left = list(server.objects)
    claim = ("persistentvolumeclaims", site_of(server).namespace, RUN)
    assert left == ([] if volumes else [claim])
    assert len(done.kept) == (0 if volumes else 1)
    with pytest.raises(FindingsError, match="no run"):
        status(site_of(server), RUN)
