# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Reasons before states: what is said of pods that do not run, from what clusters really write."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from seatrial.cluster.kinds import PYTORCH_JOB
from seatrial.cluster.transport import Json
from seatrial.codes.preflight import PreflightCode
from seatrial.codes.runs import RunCode
from seatrial.findings import Finding, Severity
from seatrial.monitoring.node_measurements import NodeMeasurement
from seatrial.runs.ledger.ledger import Ledger
from seatrial.runs.status.attempt_state import NODE_FAULTS, faulty_nodes
from seatrial.runs.status.container_reasons import (
    node_measurement,
    preflight_findings,
    why_not_running,
)
from seatrial.runs.status.observe import FoundJob, Observed
from seatrial.runs.status.pending_reasons import reasons
from seatrial.runs.status.status import age, status_of
from seatrial.spec.cluster import Operator
from tests.unit.runs.fake_cluster import pod_of, rendered, running, wanted

JOB = dict(rendered(wanted()).manifests[-1])
JOB["metadata"] = JOB["metadata"] | {"uid": "job", "creationTimestamp": "2026-11-15T03:12:00Z"}
NOW = datetime(2026, 11, 15, 3, 20, tzinfo=UTC)
PREEMPTION = " preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."


def observed(*pods: Json, **parts: Any) -> Observed:
    for number, pod in enumerate(pods):
        pod["metadata"]["uid"] = f"pod-{number}"
    job = FoundJob(Operator.PYTORCHJOB, PYTORCH_JOB, parts.pop("job", JOB))
    return Observed("slim-7b", "research", Ledger(), job, tuple(pods), **parts)


def waiting(message: str, index: int = 0) -> Json:
    """A pod that the scheduler has refused."""
    refused = {"type": "PodScheduled", "status": "False", "message": message}
    pod = pod_of(JOB, index, conditions=[refused])
    return pod


def node(name: str, allocatable: dict[str, str], kind: str = "p4d.24xlarge") -> Json:
    labels = {"node.kubernetes.io/instance-type": kind}
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}}


def only(found: list[Finding]) -> Finding:
    (one,) = found
    return one


def test_a_missing_device_plugin_is_named_with_how_many_nodes_lack_it() -> None:
    said = f"0/4 nodes are available: 4 Insufficient vpc.amazonaws.com/efa.{PREEMPTION}"
    gpus = {"nvidia.com/gpu": "8"}
    nodes = (node("n0", gpus), node("n1", gpus), node("small", {}, "m5.large"))
    found = only(reasons(observed(waiting(said), waiting(said, 1), nodes=nodes)))
    assert found.code == RunCode.RESOURCES
    assert str(found.where) == "all 2 pods"
    assert found.rule == (
        "no node has 4 free vpc.amazonaws.com/efa: 0 of 2 p4d.24xlarge nodes offer it."
    )
    assert "EFA device plugin" in found.fix
    assert "cluster.fabric=none" in found.fix


def test_each_resource_that_is_short_is_a_reason_of_its_own() -> None:
    said = (
        "0/4 nodes are available: 1 node(s) had untolerated taint {x: y}, 2 Insufficient "
        f"nvidia.com/gpu, 3 Insufficient memory. no new claims to deallocate,{PREEMPTION}"
    )
    nodes = (node("a", {"nvidia.com/gpu": "8", "memory": "1100Gi"}),)
    found = reasons(observed(waiting(said), nodes=nodes))
    assert [f.value for f in found] == ["nvidia.com/gpu", "memory"]
    assert "but other pods are using this capacity" in found[0].rule


def test_without_the_right_to_see_nodes_it_is_said_what_is_not_known() -> None:
    said = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."
    found = only(reasons(observed(waiting(said), nodes=None)))
    assert "4 nodes checked" in found.rule
    assert "seatrial-observer" in found.fix


def test_no_node_of_the_type_is_told_apart_from_nodes_that_are_full() -> None:
    said = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    found = only(reasons(observed(waiting(said), nodes=(node("a", {}, "m5.large"),))))
    assert "the cluster has no p4d.24xlarge nodes" in found.rule


def test_labels_and_taints_that_fit_no_node_are_told_as_the_scheduler_has_them() -> None:
    said = f"0/4 nodes are available: 4 node(s) didn't match Pod's node affinity.{PREEMPTION}"
    found = only(reasons(observed(waiting(said), nodes=())))
    assert found.code == RunCode.PLACEMENT
    assert "didn't match Pod's node affinity" in found.rule
    assert "reemption" not in found.rule


def test_a_claim_without_a_volume_is_explained_by_its_own_events() -> None:
    pod = waiting("pod has unbound immediate PersistentVolumeClaims.")
    claim = {
        "metadata": {"name": "slim-7b", "uid": "claim"},
        "spec": {"storageClassName": "fsx"},
        "status": {"phase": "Pending"},
    }
    event = {
        "type": "Warning",
        "reason": "ProvisioningFailed",
        "message": 'storageclass.storage.k8s.io "fsx" not found',
        "involvedObject": {"uid": "claim"},
        "metadata": {},
    }
    found = only(reasons(observed(pod, claims=(claim,), events=(event,))))
    assert found.code == RunCode.VOLUME
    assert '"fsx" not found' in found.rule


@pytest.mark.parametrize(
    ("said", "fix"),
    [
        ("failed to authorize: 401 Unauthorized", "image_pull_secret"),
        ("docker.io/x:1: not found", "tag and digest"),
        ("toomanyrequests: You have reached your pull rate limit", "mirror"),
        ("dial tcp: lookup registry.example: no such host", "DNS"),
    ],
)
def test_an_image_that_cannot_be_pulled_is_told_by_what_the_registry_said(
    said: str, fix: str
) -> None:
    state = {"waiting": {"reason": "ImagePullBackOff", "message": said}}
    statuses = [{"name": "pytorch", "image": "registry.example/x:1", "state": state}]
    found = only(reasons(observed(pod_of(JOB, 0, phase="Pending", containerStatuses=statuses))))
    assert found.code == RunCode.IMAGE
    assert "registry.example/x:1" in found.rule
    assert fix in found.fix


def preflight(code: str, index: int) -> Json:
    words = [
        {
            "code": code,
            "severity": "error",
            "where": {"field": f"node-{index}"},
            "rule": "7 of 8 GPUs are present.",
            "value": "7",
            "fix": "Cordon it.",
        }
    ]
    ended = {"exitCode": 1, "message": json.dumps(words)}
    waits = {"waiting": {"reason": "CrashLoopBackOff"}}
    statuses = [{"name": "preflight", "state": waits, "lastState": {"terminated": ended}}]
    return pod_of(JOB, index, phase="Pending", initContainerStatuses=statuses)


def test_what_the_pre_flight_found_is_told_as_it_was_found() -> None:
    found = only(reasons(observed(preflight("ST-PREFLIGHT-001", 0))))
    assert found.code == "ST-PREFLIGHT-001"
    assert str(found.where) == "node-0"
    assert found.fix == "Cordon it."


def test_a_node_is_faulty_by_its_own_fault_only() -> None:
    sick, healthy = preflight("ST-PREFLIGHT-001", 1), preflight("ST-PREFLIGHT-006", 0)
    assert faulty_nodes([sick, healthy]) == ("node-1",)
    # What all nodes share is no node's fault, and room on a volume never is.
    assert faulty_nodes([preflight("ST-PREFLIGHT-004", i) for i in (0, 1)]) == ()
    assert faulty_nodes([preflight("ST-PREFLIGHT-005", 0), pod_of(JOB, 1, **running())]) == ()
    assert set(NODE_FAULTS) < set(PreflightCode)


def measured(index: int, *findings: str, **values: Any) -> Json:
    """A pod whose preflight measured its node, and found something or not."""
    told = [
        {"code": code, "severity": "error", "where": {}, "rule": "slow.", "value": "", "fix": "."}
        for code in findings
    ]
    message = json.dumps([*told, {"measured": {"node": "told", **values}}])
    ended = {"exitCode": int(bool(findings)), "message": message}
    statuses = [{"name": "preflight", "state": {"terminated": ended}}]
    return pod_of(JOB, index, phase="Pending", initContainerStatuses=statuses)


def test_measurements_stand_beside_findings_or_alone() -> None:
    slow, good = measured(0, "ST-PREFLIGHT-011", between_gb_s=0.5), measured(1, between_gb_s=90)
    assert node_measurement(slow) == NodeMeasurement("node-0", between_gb_s=0.5)
    assert node_measurement(good) == NodeMeasurement("node-1", between_gb_s=90.0)
    assert [each.code for each in preflight_findings(slow)] == ["ST-PREFLIGHT-011"]
    assert preflight_findings(good) == []
    # One slow node of two is to blame; if all are slow, the network or the floor is.
    assert faulty_nodes([slow, good]) == ("node-0",)
    assert faulty_nodes([measured(i, "ST-PREFLIGHT-011") for i in (0, 1)]) == ()
    assert node_measurement(preflight("ST-PREFLIGHT-001", 0)) is None


@pytest.mark.parametrize(
    "message", ["", "{}", "[1]", '[{"measured": 3}]', '[{"measured": {}}]', "x"]
)
def test_a_message_that_is_no_measurement_is_none(message: str) -> None:
    statuses = [{"name": "preflight", "state": {"terminated": {"message": message}}}]
    pod = pod_of(JOB, 0, phase="Pending", initContainerStatuses=statuses)
    assert node_measurement(pod) is None
    assert preflight_findings(pod) == []


def test_hardware_is_the_nodes_own_even_when_no_other_is_there_or_well() -> None:
    for code in ("ST-PREFLIGHT-001", "ST-PREFLIGHT-002"):
        assert faulty_nodes([preflight(code, 0)]) == ("node-0",)
        assert faulty_nodes([preflight(code, i) for i in (0, 1)]) == ("node-0", "node-1")
    # A sum over one node's GPUs is wrong there; one over several nodes, somewhere.
    assert faulty_nodes([preflight("ST-PREFLIGHT-009", 0)]) == ("node-0",)
    assert faulty_nodes([preflight("ST-PREFLIGHT-009", i) for i in (0, 1)]) == ()
    # Without another node nobody can tell the node's mount from the volume.
    assert faulty_nodes([preflight("ST-PREFLIGHT-004", 0)]) == ()


def test_a_container_that_was_killed_for_memory_or_crashed_says_so() -> None:
    def ended(**end: Any) -> Json:
        state = {"waiting": {"reason": "CrashLoopBackOff"}}
        statuses = [{"name": "pytorch", "state": state, "lastState": {"terminated": end}}]
        return pod_of(JOB, 0, phase="Running", containerStatuses=statuses)

    memory = only(reasons(observed(ended(exitCode=137, reason="OOMKilled"))))
    assert memory.code == RunCode.MEMORY
    text = "Traceback\nValueError: no such file\nChildFailedError: x"
    crash = only(reasons(observed(ended(exitCode=1, reason="Error", message=text))))
    assert crash.code == RunCode.CRASH
    assert "ValueError: no such file" in crash.rule
    # Redacted before it is cut, and without a line that the kubelet has cut.
    for text in (
        f"ValueError: {'x' * 370} hf_{'aB3' * 11}",
        f"{'aB3' * 11}\n{'x ' * 1100}ValueError",
    ):
        crash = only(reasons(observed(ended(exitCode=1, reason="Error", message=text))))
        assert "aB3" not in crash.rule
    # Saved and ended on request: the operator starts it again, nothing is wrong.
    assert not [f for f in reasons(observed(ended(exitCode=75))) if f.severity is Severity.ERROR]


def test_a_sidecar_that_was_stopped_after_training_is_no_fault() -> None:
    pod = pod_of(JOB, 0, phase="Succeeded")
    pod["spec"]["initContainers"] = [{"name": "tcpxo-daemon", "restartPolicy": "Always"}]
    killed = {"name": "tcpxo-daemon", "state": {"terminated": {"exitCode": 143}}}
    done = {"name": "pytorch", "state": {"terminated": {"exitCode": 0}}}
    pod["status"] |= {"initContainerStatuses": [killed], "containerStatuses": [done]}
    assert list(why_not_running(pod, [])) == []
    pod["status"]["containerStatuses"] = [{"name": "pytorch", "state": {"running": {}}}]
    (found,) = why_not_running(pod, [])
    assert found.code == RunCode.CRASH
    assert "tcpxo-daemon" in found.rule


def test_a_pod_that_lost_its_node_is_told_as_a_warning() -> None:
    lost = {"type": "DisruptionTarget", "status": "True", "message": "node went away"}
    pod = pod_of(JOB, 0, phase="Failed", conditions=[lost])
    found = reasons(observed(pod))
    assert found[0].code == RunCode.NODE
    assert "node-0" in found[0].rule


def test_a_volume_that_cannot_be_mounted_is_told_from_the_newest_event() -> None:
    pod = pod_of(JOB, 0, phase="Pending")
    event = {
        "type": "Warning",
        "reason": "FailedMount",
        "message": 'MountVolume.SetUp failed: secret "hf" not found',
        "involvedObject": {"uid": "pod-0"},
        "metadata": {},
    }
    found = only(reasons(observed(pod, events=(event,))))
    assert found.code == RunCode.VOLUME
    assert 'secret "hf" not found' in found.rule


def test_pods_that_a_quota_refuses_are_told_from_the_jobs_events() -> None:
    event = {
        "reason": "FailedCreate",
        "message": "pods is forbidden: exceeded quota: gpus",
        "involvedObject": {"uid": "job"},
        "metadata": {},
    }
    found = only(reasons(observed(events=(event,))))
    assert found.code == RunCode.NO_PODS
    assert "exceeded quota" in found.rule


def test_a_job_that_kueue_holds_back_is_told_with_kueues_words() -> None:
    labels = JOB["metadata"]["labels"] | {"kueue.x-k8s.io/queue-name": "gpus"}
    job = JOB | {
        "metadata": JOB["metadata"] | {"labels": labels},
        "spec": JOB["spec"] | {"runPolicy": {"suspend": True}},
    }
    reserved = {"type": "QuotaReserved", "status": "False", "message": "insufficient quota"}
    found = only(reasons(observed(job=job, workload={"status": {"conditions": [reserved]}})))
    assert found.code == RunCode.QUEUE
    assert found.rule == "the job is waiting in the queue gpus: insufficient quota."


def test_nothing_is_said_of_a_run_that_runs() -> None:
    seen = observed(pod_of(JOB, 0, **running()), pod_of(JOB, 1, **running()))
    assert reasons(seen) == []
    assert status_of(seen, NOW).state == "running"
    half = observed(pod_of(JOB, 0, **running()), pod_of(JOB, 1, phase="Pending"))
    assert status_of(half, NOW).state == "waiting"
    assert (status_of(half, NOW).wanted, status_of(half, NOW).running) == (2, 1)


def test_an_age_is_in_the_largest_unit_that_says_enough() -> None:
    now = datetime(2026, 11, 15, 12, tzinfo=UTC)
    assert age("2026-11-15T11:59:30Z", now) == "30 s"
    assert age("2026-11-15T11:54:00Z", now) == "6 min"
    assert age("2026-11-15T09:00:00Z", now) == "3 h"
    assert age("2026-11-12T12:00:00Z", now) == "3 d"
