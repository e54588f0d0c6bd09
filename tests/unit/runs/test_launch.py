# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Launching once, however often it is asked for and whatever happens on the way."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from seatrial.cluster.errors import ClusterError, DeniedError, UnreachableError
from seatrial.cluster.kinds import LOCAL_QUEUE, POD_GROUP, PYTORCH_JOB, VOLCANO_POD_GROUP
from seatrial.cluster.transport import Answer, Call, DroppedError
from seatrial.codes.rendering import RenderCode
from seatrial.codes.runs import RunCode
from seatrial.errors import FindingsError, UsageError
from seatrial.runs.launch.differences import FieldDifference
from seatrial.runs.launch.launcher import Launched
from seatrial.runs.ledger.ledger import AttemptOutcome, Ledger
from seatrial.runs.status.attempt_state import SUBMITTING_SECONDS
from seatrial.runs.status.listing import list_runs
from seatrial.runs.status.observe import observe
from seatrial.runs.status.status import status, status_of
from seatrial.runs.stop import delete, stop
from tests.unit.cluster.fake_api import FakeTransport, Fault, once
from tests.unit.runs.fake_cluster import (
    jobs,
    launch,
    pod_of,
    rendered,
    set_condition,
    site_of,
    wanted,
)

RUN = wanted().plan.spec.name


def never(_: list[FieldDifference]) -> bool:
    return False


def launched(server: FakeTransport, *overrides: str, agree: bool = False) -> Launched:
    return launch(site_of(server), wanted(*overrides), lambda _: agree)


def ledger(server: FakeTransport) -> Ledger:
    return site_of(server).ledgers.read(RUN)


def test_a_first_launch_applies_what_the_job_needs_and_creates_the_job_last() -> None:
    server = FakeTransport()
    done = launched(server)
    assert (done.is_new, done.attempt, done.kind) == (True, 1, "PyTorchJob")
    changes = [call for call in server.calls if not call.reads and "selfsubject" not in call.path]
    assert changes[0].path.endswith("/configmaps")
    assert changes[-1].path.endswith("/pytorchjobs")
    # Nothing is there, so that all is created; only the ledger is written to once more.
    (noted,) = [call for call in changes if call.method != "POST"]
    assert noted.path.endswith(f"/configmaps/{RUN}--ledger")
    assert len(changes) - 2 == done.objects
    assert [a.number for a in ledger(server).attempts] == [1]


def test_what_is_submitted_is_what_is_rendered() -> None:
    server = FakeTransport()
    launched(server)
    sent = [call.body for call in server.calls if call.method in ("POST", "PATCH")]
    (first,) = ledger(server).attempts
    for manifest in rendered(wanted(), first.submission).manifests:
        assert manifest in sent


def test_a_run_that_was_deleted_and_launched_again_looks_between_its_nodes_again() -> None:
    server, markers = FakeTransport(), []
    for _ in range(2):
        assert launched(server).attempt == 1
        (job,) = jobs(server)
        master = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
        before = next(c for c in master["initContainers"] if c["name"] == "preflight")
        markers += [word for word in before["command"] if word.startswith("--met=")]
        delete(site_of(server), RUN, volumes=False)
    # The volume stays, and so does what the first one left there.
    assert len(set(markers)) == 2


def test_launching_again_does_nothing_and_says_so() -> None:
    server = FakeTransport()
    launched(server)
    before = json.dumps(list(server.objects.values()))
    again = launched(server)
    assert not again.is_new
    assert again.attempt == 1
    assert json.dumps(list(server.objects.values())) == before


def test_a_changed_spec_is_shown_field_by_field_and_changes_nothing_without_a_yes() -> None:
    server = FakeTransport()
    launched(server)
    before = json.dumps(list(server.objects.values()))
    with pytest.raises(FindingsError, match=r"ST-RUN-002|training\.seed") as caught:
        launch(site_of(server), wanted("training.seed=7"), never)
    assert "training.seed" in caught.value.findings[0].rule
    assert "--yes" in caught.value.findings[0].fix
    assert json.dumps(list(server.objects.values())) == before


def test_a_changed_spec_takes_the_place_of_the_one_before_after_a_yes() -> None:
    server = FakeTransport()
    launched(server)
    done = launched(server, "training.seed=7", agree=True)
    assert (done.is_new, done.attempt) == (True, 2)
    (job,) = jobs(server)
    assert job["metadata"]["labels"]["seatrial.dev/attempt"] == "2"
    assert [a.outcome for a in ledger(server).attempts] == [AttemptOutcome.REPLACED, None]


def test_a_run_that_failed_gets_a_new_attempt() -> None:
    server = FakeTransport()
    launched(server)
    set_condition(server, "Failed", "PyTorchJob failed because 1 Worker replica(s) failed.")
    done = launched(server)
    assert (done.is_new, done.attempt) == (True, 2)
    first = ledger(server).attempts[0]
    assert first.outcome is AttemptOutcome.FAILED
    assert "Worker replica" in first.reason
    assert first.ended == "2026-11-15T04:00:00Z"


def test_a_run_that_succeeded_is_left_alone() -> None:
    server = FakeTransport()
    launched(server)
    set_condition(server, "Succeeded")
    assert not launched(server).is_new


def test_a_run_that_succeeded_is_left_alone_after_its_job_is_gone_too() -> None:
    server = FakeTransport()
    site = site_of(server)
    launched(server)
    set_condition(server, "Succeeded")
    assert status(site, RUN).succeeded
    del server.objects["pytorchjobs", site.namespace, RUN]
    again = launched(server)
    assert (again.is_new, again.attempt) == (False, 1)
    assert "succeeded" in again.why
    assert not jobs(server)
    # Another spec is another matter.
    assert launched(server, "training.seed=7", agree=True).attempt == 2


def fails_on_node_1(server: FakeTransport) -> None:
    """Let the attempt fail by the pre-flight of one node."""
    (job,) = jobs(server)
    words = [
        {
            "code": "ST-PREFLIGHT-001",
            "severity": "error",
            "where": {"field": "node-1"},
            "rule": "7 of 8 GPUs are present.",
            "value": "7",
            "fix": "Cordon it.",
        }
    ]
    together = [{**words[0], "code": "ST-PREFLIGHT-006", "where": {"field": "node-0"}}]
    for index, said in ((0, together), (1, words)):
        ended = {"exitCode": 1, "message": json.dumps(said)}
        init = [{"name": "preflight", "state": {"terminated": ended}}]
        server.put(pod_of(job, index, phase="Pending", initContainerStatuses=init))
    set_condition(server, "Failed", "backoff limit")
    for name in list(server.objects):
        if name[0] == "pods":
            server.objects[name]["status"]["phase"] = "Failed"


def test_nodes_that_failed_their_look_are_left_out_of_the_next_attempts() -> None:
    server = FakeTransport()
    launched(server, "cluster.nodes=2")
    fails_on_node_1(server)
    done = launched(server, "cluster.nodes=2")
    assert done.excluded_nodes == ("node-1",)
    (job,) = jobs(server)
    template = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]
    assert '"NotIn", "values": ["node-1"]' in json.dumps(template["affinity"])
    assert "7 of 8 GPUs" in ledger(server).attempts[0].reason


def test_a_node_that_is_mended_is_readmitted_for_good() -> None:
    server = FakeTransport()
    launched(server, "cluster.nodes=2")
    fails_on_node_1(server)
    site, run = site_of(server), wanted("cluster.nodes=2")
    with pytest.raises(UsageError, match=r"does not exclude node-7.* Excluded nodes: node-1"):
        launch(site, replace(run, readmitted=("node-7",)), never)
    assert len(ledger(server).attempts) == 1
    assert launch(site, replace(run, readmitted=("node-1",)), never).excluded_nodes == ()
    stop(site, RUN)
    assert launch(site, run, never).excluded_nodes == ()


def test_an_attempt_that_is_being_submitted_is_not_gone() -> None:
    server, now = FakeTransport(), datetime.now(UTC)
    site = site_of(server)
    launched(server)
    del server.objects["pytorchjobs", site.namespace, RUN]
    seen = observe(site.api, site.namespace, RUN)
    early = status_of(seen, now)
    assert (early.state, early.is_over) == ("waiting", False)
    assert [reason.code for reason in early.reasons] == [RunCode.SUBMITTING]
    late = status_of(seen, now + timedelta(seconds=SUBMITTING_SECONDS + 60))
    assert (late.state, late.is_over) == ("gone", True)
    (reason,) = late.reasons
    assert reason.code == RunCode.UNKNOWN_END
    assert "the outcome of attempt 1 is unknown" in reason.rule
    assert "events.jsonl" in reason.fix
    assert [line.state for line in list_runs(site)] == ["waiting"]


def test_an_end_that_was_noted_is_known_after_the_job_is_gone() -> None:
    server = FakeTransport()
    site = site_of(server)
    launched(server)
    set_condition(server, "Succeeded")
    status(site, RUN)
    del server.objects["pytorchjobs", site.namespace, RUN]
    seen = observe(site.api, site.namespace, RUN)
    later = status_of(seen, datetime.now(UTC) + timedelta(days=30))
    assert (later.state, later.reasons) == ("succeeded", ())


def test_a_job_of_that_name_that_is_not_ours_is_refused() -> None:
    server = FakeTransport()
    head = {"name": RUN, "namespace": site_of(server).namespace}
    server.put({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": head})
    with pytest.raises(FindingsError, match="did not create"):
        launched(server)


@pytest.mark.parametrize("was_ours", [False, True])
def test_neither_stop_nor_delete_touches_a_job_that_is_not_ours(was_ours: bool) -> None:
    server = FakeTransport()
    site = site_of(server)
    if was_ours:
        launched(server)
        del server.objects["pytorchjobs", site.namespace, RUN]
    head = {"name": RUN, "namespace": site.namespace}
    server.put({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": head})
    before = json.dumps(list(server.objects.values()))
    with pytest.raises(FindingsError, match="did not create"):
        stop(site, RUN)
    with pytest.raises(FindingsError, match="did not create"):
        delete(site, RUN, volumes=True)
    assert json.dumps(list(server.objects.values())) == before


def test_missing_rights_are_all_named_before_anything_is_touched() -> None:
    server = FakeTransport()
    server.denied |= {("create", "pytorchjobs"), ("patch", "services")}
    with pytest.raises(DeniedError) as caught:
        launched(server)
    assert "create pytorchjobs, patch services" in str(caught.value)
    assert not server.objects


@pytest.mark.parametrize("path", ["configmaps", "pytorchjobs", "networkpolicies"])
@pytest.mark.parametrize("deed_done", [True, False])
def test_a_lost_answer_makes_neither_two_jobs_nor_two_attempts(path: str, deed_done: bool) -> None:
    server = FakeTransport()
    faults = server.after if deed_done else server.faults
    faults.append(once(DroppedError("reset"), "POST", path))
    done = launched(server)
    assert done.attempt == 1
    assert len(jobs(server)) == 1
    assert [a.number for a in ledger(server).attempts] == [1]


def test_a_launch_that_died_before_its_job_is_completed_by_the_next() -> None:
    server = FakeTransport()
    site = site_of(server)

    def away(call: Call) -> None:
        if call.path.endswith("/pytorchjobs") and call.method == "POST":
            raise DroppedError("refused")

    server.instead = away
    with pytest.raises(UnreachableError):
        launch(site, wanted(), never)
    server.instead = None
    assert not jobs(server)
    done = launched(server)
    assert (done.is_new, done.attempt) == (True, 1)
    assert len(jobs(server)) == 1
    assert [a.number for a in ledger(server).attempts] == [1]


def test_a_refused_job_ends_the_attempt_with_the_reason() -> None:
    server = FakeTransport()
    server.faults.append(once(Answer(422, {"message": "spec.x: Invalid"}), "POST", "pytorchjobs"))
    with pytest.raises(ClusterError, match=r"spec\.x: Invalid"):
        launched(server)
    (record,) = ledger(server).attempts
    assert record.outcome is AttemptOutcome.FAILED
    assert "spec.x: Invalid" in record.reason
    assert launched(server).attempt == 2


def test_two_who_launch_at_once_make_one_job() -> None:
    server = FakeTransport()
    other = site_of(server)
    state = {"raced": False}

    def race(call: Call) -> None:
        # Between the look of the first and its claim, the second launches.
        if call.method == "POST" and call.path.endswith("/configmaps") and not state["raced"]:
            state["raced"] = True
            launch(other, wanted(), never)

    server.instead = race
    done = launched(server)
    assert not done.is_new
    assert len(jobs(server)) == 1
    assert [a.number for a in ledger(server).attempts] == [1]


def test_an_operator_of_the_profile_that_is_not_served_is_not_asked_for_jobs() -> None:
    server = FakeTransport(unserved=(PYTORCH_JOB,))
    with pytest.raises(ClusterError):
        launched(server)
    assert ledger(server).attempts[0].outcome is AttemptOutcome.FAILED


def unseen(times: int) -> list[Fault]:
    said = "specified trainingRuntime must be created before the TrainJob is created"
    return [once(Answer(403, {"message": said}), "POST", "trainjobs") for _ in range(times)]


def test_a_runtime_that_the_webhook_has_not_seen_yet_is_waited_for() -> None:
    server = FakeTransport()
    server.faults += unseen(3)
    assert launched(server, "cluster.operator=trainjob").is_new
    assert len(jobs(server)) == 1


def test_a_runtime_that_is_never_seen_is_refused() -> None:
    server = FakeTransport()
    server.faults += unseen(1000)
    with pytest.raises(DeniedError, match="must be created before"):
        launched(server, "cluster.operator=trainjob")
    assert jobs(server) == []


def queue(name: str) -> dict[str, object]:
    head = {"name": name, "namespace": "default"}
    spec = {"clusterQueue": "gpu"}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "LocalQueue",
        "metadata": head,
        "spec": spec,
    }


def test_a_launch_selects_and_records_what_the_cluster_offers_for_gang_auto() -> None:
    server = FakeTransport()
    done = launched(server)
    (first,) = ledger(server).attempts
    assert (first.gang, first.queue, done.gang) == ("coscheduling", "", "coscheduling")
    (job,) = jobs(server)
    assert job["spec"]["runPolicy"]["schedulingPolicy"]["minAvailable"] == 2


def test_a_launch_uses_the_only_queue_of_the_namespace() -> None:
    server = FakeTransport()
    server.put(queue("team"))
    done = launched(server)
    (first,) = ledger(server).attempts
    assert (first.gang, first.queue, done.gang) == ("kueue", "team", "kueue, queue team")
    (job,) = jobs(server)
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert "schedulingPolicy" not in job["spec"]["runPolicy"]


def test_a_launch_into_a_cluster_without_gang_scheduling_warns() -> None:
    server = FakeTransport(unserved=(POD_GROUP, VOLCANO_POD_GROUP, LOCAL_QUEUE))
    done = launched(server)
    (first,) = ledger(server).attempts
    assert (first.gang, done.gang) == ("none", "")
    assert [each.code for each in done.findings if each.code == RenderCode.GANG]


def test_a_gang_scheduler_that_the_spec_names_is_recorded_too() -> None:
    server = FakeTransport()
    done = launched(server, "cluster.gang=none")
    assert ledger(server).attempts[0].gang == "none"
    assert done.gang == ""
    assert not [each for each in done.findings if each.code == RenderCode.GANG]
