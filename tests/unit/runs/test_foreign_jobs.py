# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs, pods and events of other owners beside those of a run: never taken for its own."""

import json

import pytest

from seatrial.cluster.discovery import JOB_KINDS
from seatrial.errors import FindingsError
from seatrial.rendering.names import COMPONENT_LABEL, Component
from seatrial.runs.ledger.ledger import AttemptOutcome
from seatrial.runs.status.observe import observe
from seatrial.runs.status.status import status
from seatrial.runs.stop import delete, stop
from seatrial.spec.cluster import Operator
from tests.unit.cluster.fake_api import FakeTime, FakeTransport
from tests.unit.runs.fake_cluster import jobs, launch, site_of, wanted
from tests.unit.runs.foreign_objects import HELM, NAMESPACE, RUN, agree, put, state

MADE_BY_OPERATORS = [
    ("trainjob", (), "jobset.x-k8s.io/v1alpha2", "JobSet", RUN),
    ("trainjob", (), "batch/v1", "Job", f"{RUN}-node-0"),
    ("trainjob", (), "v1", "Service", f"{RUN}--nodes"),
    ("pytorchjob", (), "v1", "Pod", f"{RUN}-master-0"),
    ("pytorchjob", (), "v1", "Service", f"{RUN}-master-0"),
    ("pytorchjob", ("cluster.gang=volcano",), "scheduling.volcano.sh/v1beta1", "PodGroup", RUN),
    ("trainjob", ("cluster.gang=coscheduling",), "scheduling.x-k8s.io/v1alpha1", "PodGroup", RUN),
]


@pytest.mark.parametrize(("operator", "words", "api", "kind", "name"), MADE_BY_OPERATORS)
def test_an_operator_is_not_let_loose_on_an_object_of_another_owner(
    operator: str, words: tuple[str, ...], api: str, kind: str, name: str
) -> None:
    server = FakeTransport()
    put(server, api, kind, name, **HELM)
    before = state(server)
    run = wanted(f"cluster.operator={operator}", *words)
    with pytest.raises(FindingsError, match="Helm release baseline") as caught:
        launch(site_of(server), run, agree)
    assert [str(each.where) for each in caught.value.findings] == [f"{kind} {NAMESPACE}/{name}"]
    assert state(server) == before
    # What is left of the attempt before is the operator's own.
    owner = (
        "JobSet" if (operator, kind) == ("trainjob", "Job") else JOB_KINDS[Operator(operator)].name
    )
    left = [{"kind": owner, "name": RUN, "uid": "of-the-attempt-before"}]
    put(server, api, kind, name, ownerReferences=left)
    time = FakeTime(on_sleep=lambda: server.objects.clear())
    assert launch(site_of(server, time), run, agree).is_new


def test_a_job_set_is_no_obstacle_to_a_run_that_makes_none() -> None:
    server = FakeTransport()
    put(server, "jobset.x-k8s.io/v1alpha2", "JobSet", RUN, **HELM)
    assert launch(site_of(server), wanted("cluster.operator=pytorchjob"), agree).is_new


def test_an_account_that_may_not_look_at_job_sets_can_launch() -> None:
    server = FakeTransport()
    server.denied |= {("get", "jobsets")}
    assert launch(site_of(server), wanted("cluster.operator=trainjob"), agree).is_new


def put_foreign_jobs(server: FakeTransport, operator: str) -> None:
    """Jobs of every other kind with the run's name, as another team may create them."""
    for made, kind in JOB_KINDS.items():
        if made != operator:
            put(server, kind.api_version, kind.name, RUN, labels={"team": "vision"})


@pytest.mark.parametrize("operator", ["pytorchjob", "trainjob"])
@pytest.mark.parametrize("command", ["status", "launch", "stop", "delete"])
def test_foreign_jobs_of_other_kinds_do_not_hide_the_job_of_a_run(
    operator: str, command: str
) -> None:
    server = FakeTransport()
    site = site_of(server)
    ours = wanted(f"cluster.operator={operator}")
    launch(site, ours, agree)
    kind = JOB_KINDS[Operator(operator)]
    put_foreign_jobs(server, operator)
    foreign = [json.dumps(job) for job in jobs(server) if job["kind"] != kind.name]
    if command == "status":
        assert status(site, RUN).attempt == 1
    elif command == "launch":
        changed = wanted(f"cluster.operator={operator}", "training.seed=7")
        assert launch(site, changed, agree).attempt == 2
    elif command == "stop":
        assert stop(site, RUN).was_running
    else:
        assert f"{kind.name} {RUN}" in delete(site, RUN, volumes=True).removed
    is_there = (kind.plural, NAMESPACE, RUN) in server.objects
    assert is_there == (command in ("status", "launch"))
    assert [json.dumps(job) for job in jobs(server) if job["kind"] != kind.name] == foreign


@pytest.mark.parametrize(
    ("operator", "owner", "is_waited_for"),
    [
        ("pytorchjob", None, False),
        ("pytorchjob", ("PyTorchJob", RUN), True),
        ("pytorchjob", ("ReplicaSet", f"{RUN}-debug"), False),
        ("trainjob", None, False),
        ("trainjob", ("Job", f"{RUN}-node-0"), True),
        ("trainjob", ("Job", f"{RUN}-debug"), False),
    ],
)
def test_stop_waits_only_for_pods_that_the_job_owns(
    operator: str, owner: tuple[str, str] | None, is_waited_for: bool
) -> None:
    server = FakeTransport()
    site = site_of(server)
    launch(site, wanted(f"cluster.operator={operator}"), agree)
    (job,) = jobs(server)
    labels = job["metadata"]["labels"] | {COMPONENT_LABEL: str(Component.TRAINING)}
    pod = put(server, "v1", "Pod", f"{RUN}-copy", labels=labels)
    pod["status"] = {"phase": "Running"}
    if owner is not None:
        kind, name = owner
        uid = job["metadata"]["uid"] if kind == job["kind"] else "another"
        pod["metadata"]["ownerReferences"] = [{"kind": kind, "name": name, "uid": uid}]
    assert len(observe(site.api, NAMESPACE, RUN).pods) == is_waited_for
    if is_waited_for:
        with pytest.raises(FindingsError, match="has not exited"):
            stop(site, RUN)
    else:
        assert stop(site, RUN).was_running
        assert site.clock() == 0
    # The job is deleted either way, so the attempt has ended.
    (attempt,) = site.ledgers.read(RUN).attempts
    assert attempt.outcome is AttemptOutcome.STOPPED


@pytest.mark.parametrize(
    ("run", "kind", "name", "is_ours"),
    [
        ("slim", "JobSet", "slim", True),
        ("slim", "Job", "slim-node-0", True),
        ("slim", "Pod", "slim-node-0-1-x2x4z", True),
        ("slim", "JobSet", "slim-node-0", False),
        ("slim", "Job", "slim-node-0-node-0", False),
        ("slim", "Pod", "slim-node-b-node-0-1-x2x4z", False),
        ("slim-node-0", "Job", "slim-node-0", False),
        ("slim-node-0", "JobSet", "slim-node-0", True),
    ],
)
def test_an_event_of_another_run_explains_nothing(
    run: str, kind: str, name: str, is_ours: bool
) -> None:
    server = FakeTransport()
    launch(site_of(server), wanted(f"name={run}"), agree)
    about = {"kind": kind, "name": name, "uid": "another"}
    head = {"name": "happened", "namespace": NAMESPACE}
    happened = {"apiVersion": "v1", "kind": "Event", "metadata": head, "involvedObject": about}
    server.put(happened)
    assert bool(observe(site_of(server).api, NAMESPACE, run).events) == is_ours
