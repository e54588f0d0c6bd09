# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The jobs of the operators: fields where each operator has them, and torchrun told everything."""

from dataclasses import replace

import pytest

from seatrial.checkpoints.stopping import StopCode
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.names import spec_digest
from seatrial.rendering.render import job_manifests
from seatrial.spec.cluster import Operator
from seatrial.worker.process import UNSUITABLE
from tests.conftest import resolved
from tests.unit.rendering.scenes import FIRST, environment, job, manifests, pod_templates, scene

TRAINJOB = "cluster.operator=trainjob"
HYPERPOD = (
    *("cluster.profile=hyperpod-eks", "cluster.node_type=ml.p4d.24xlarge"),
    "cluster.operator=hyperpod-pytorchjob",
)
EXCLUDING = Attempt(2, ("ip-1",))


def runtime(*overrides: str, attempt: Attempt = FIRST) -> Manifest:
    """The runtime of a TrainJob."""
    (found,) = [
        m
        for m in manifests(TRAINJOB, *overrides, attempt=attempt)
        if m["kind"] == "TrainingRuntime"
    ]
    return found


def torchrun_words(manifest: Manifest, replica: int = 0) -> list[str]:
    """What stands before the engine's own arguments."""
    template = pod_templates(manifest)[replica]
    words: list[str] = template["spec"]["containers"][0]["command"]
    return words[: words.index("seatrial.worker.megatron.pod") + 1]


def test_a_pytorchjob_has_a_master_and_workers_that_know_everything() -> None:
    made = job()
    replicas = made["spec"]["pytorchReplicaSpecs"]
    assert {role: r["replicas"] for role, r in replicas.items()} == {"Master": 1, "Worker": 1}
    assert made["spec"]["nprocPerNode"] == "8"
    # The first node knows its own name; others find it before it is ready, which its probes decide.
    for number, address in enumerate(("slim-7b-master-0", "slim-7b--meeting")):
        assert torchrun_words(made, number) == [
            *("python3", "-m", "seatrial.worker.supervisor"),
            *("--nodes=2", "--processes=8", "--node-rank=$(RANK)"),
            *(f"--address={address}", "--port=23456", "--name=slim-7b-attempt-1"),
            *("--restarts=10", "--grace-seconds=759", "--directory=/scratch/supervisor", "--"),
            "--log-dir=/data/slim-7b/logs/attempt-1/node-$(RANK)",
            *("--tee=3", "--module", "seatrial.worker.megatron.pod"),
        ]
    for replica in replicas.values():
        assert replica["restartPolicy"] == "OnFailure"
        (container,) = replica["template"]["spec"]["containers"]
        # The operator's webhook refuses any other name.
        assert container["name"] == "pytorch"
        assert {"name": "pytorchjob-port", "containerPort": 23456} in container["ports"]


def test_one_node_has_no_workers() -> None:
    assert set(job("cluster.nodes=1")["spec"]["pytorchReplicaSpecs"]) == {"Master"}


def test_the_run_policy_stands_where_the_definition_has_it() -> None:
    made = job("cluster.nodes=4", "cluster.restarts=3")
    assert set(made["spec"]) == {"nprocPerNode", "runPolicy", "pytorchReplicaSpecs"}
    assert made["spec"]["runPolicy"] == {
        "cleanPodPolicy": "Running",
        "ttlSecondsAfterFinished": 604800,
        # The operator counts the restarts of every container: 3 of 4 nodes each, and one more.
        "backoffLimit": 13,
    }


def test_nodes_meet_before_training_under_a_name_that_answers_already() -> None:
    made = manifests()
    (service,) = [m for m in made if m["metadata"]["name"] == "slim-7b--meeting"]
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"] == {
        "seatrial.dev/run": "slim-7b",
        "training.kubeflow.org/job-name": "slim-7b",
        "training.kubeflow.org/replica-type": "master",
    }
    ranks = []
    for template in pod_templates(made[-1]):
        preflight = template["spec"]["initContainers"][-1]
        assert "--master-addr=slim-7b--meeting" in preflight["command"]
        index = environment(preflight)["SEATRIAL_REPLICA_INDEX"]
        assert "replica-index" in index["fieldRef"]["fieldPath"]
        ranks += [word for word in preflight["command"] if word.startswith("--first-rank")]
    assert ranks == ["--first-rank=0", "--first-rank=1"]
    alone = manifests("cluster.preflight=false", "cluster.nodes=1")
    assert not [m for m in alone if "meeting" in str(m["metadata"])]


def test_a_trainjob_names_its_runtime_and_the_runtime_is_the_run() -> None:
    made = job(TRAINJOB)
    assert made["spec"] == {
        "runtimeRef": {
            "apiGroup": "trainer.kubeflow.org",
            "kind": "TrainingRuntime",
            "name": "slim-7b",
        },
        "trainer": {"numNodes": 2, "numProcPerNode": 8},
    }
    spec = runtime()["spec"]
    assert spec["mlPolicy"] == {"numNodes": 2, "torch": {}}
    jobset = spec["template"]["spec"]
    assert jobset["ttlSecondsAfterFinished"] == 604800
    (rule,) = jobset["failurePolicy"].pop("rules")
    assert jobset["failurePolicy"] == {"maxRestarts": 10}
    assert (rule["action"], rule["onJobFailureReasons"]) == ("FailJobSet", ["PodFailurePolicy"])
    assert jobset["network"]["publishNotReadyAddresses"] is True
    assert jobset["network"]["subdomain"] == "slim-7b--nodes"
    (replicated,) = jobset["replicatedJobs"]
    assert replicated["template"]["metadata"]["labels"] == {
        "trainer.kubeflow.org/trainjob-ancestor-step": "trainer"
    }
    assert replicated["template"]["spec"]["backoffLimit"] == 0
    (final,) = replicated["template"]["spec"]["podFailurePolicy"]["rules"]
    assert final["action"] == "FailJob"
    # Not of a process that a later start has replaced: that one may be well.
    assert final["onExitCodes"]["values"] == sorted({UNSUITABLE, *StopCode} - {StopCode.STALE})
    pod = replicated["template"]["spec"]["template"]["spec"]
    assert final["onExitCodes"]["containerName"] in [one["name"] for one in pod["containers"]]
    assert pod["restartPolicy"] == "Never"
    (container,) = replicated["template"]["spec"]["template"]["spec"]["containers"]
    assert container["name"] == "node"
    words = torchrun_words(runtime())
    assert "--node-rank=$(JOB_COMPLETION_INDEX)" in words
    assert "--address=slim-7b-node-0-0.slim-7b--nodes" in words


@pytest.mark.parametrize(
    ("version", "field"),
    [
        ("2.0", None),
        ("2.0.1", None),
        ("2.1", "podTemplateOverrides"),
        ("2.2", "runtimePatches"),
        ("2.3", "runtimePatches"),
        (None, "runtimePatches"),
    ],
)
def test_what_an_attempt_changes_is_in_the_field_of_the_served_version(
    version: str | None, field: str | None
) -> None:
    given = (f"cluster.operator_version='{version}'",) if version else ()
    spec = job(TRAINJOB, *given, attempt=EXCLUDING)["spec"]
    known = {"podSpecOverrides", "podTemplateOverrides", "runtimePatches"}
    assert set(spec) & known == ({field} if field else set())
    excluded = "'metadata.name', 'operator': 'NotIn', 'values': ['ip-1']"
    assert (excluded in str(spec)) == (field is not None)
    # 2.0 has no place for it in the job, so that it stands in the runtime.
    assert (excluded in str(runtime(*given, attempt=EXCLUDING))) == (field is None)


def test_the_runtime_is_the_same_for_all_attempts() -> None:
    def pods_without_number(attempt: Attempt) -> Manifest:
        (template,) = pod_templates(runtime(attempt=attempt))
        del template["metadata"]
        return template

    words = str(pods_without_number(FIRST)).replace("attempt-1", "attempt-N")
    assert words == str(pods_without_number(EXCLUDING)).replace("attempt-2", "attempt-N")


def test_a_patch_says_the_whole_affinity_because_lists_are_replaced() -> None:
    (patch,) = job(TRAINJOB, attempt=EXCLUDING)["spec"]["runtimePatches"]
    (replicated,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    affinity = replicated["template"]["spec"]["template"]["spec"]["affinity"]
    (template,) = pod_templates(runtime())
    assert set(affinity) == set(template["spec"]["affinity"])
    assert "p4d.24xlarge" in str(affinity["nodeAffinity"])


def test_a_hyperpod_job_is_started_by_its_own_launcher() -> None:
    made = job(*HYPERPOD)
    assert made["apiVersion"] == "sagemaker.amazonaws.com/v1"
    assert made["kind"] == "HyperPodPyTorchJob"
    (replica,) = made["spec"]["replicaSpecs"]
    assert replica["replicas"] == 2
    words = replica["template"]["spec"]["containers"][0]["command"]
    assert words[0] == "hyperpodrun"
    assert {"--nnodes=2", "--nproc-per-node=8"} <= set(words)
    preflight = replica["template"]["spec"]["initContainers"][-1]["command"]
    assert not [word for word in preflight if word.startswith("--master-addr")]
    assert made["spec"]["runPolicy"]["jobMaxRetryCount"] == 10
    # Its own agent starts processes again; the kubelet has nobody of ours to ask.
    assert "Probe" not in str(made)
    assert "seatrial.worker.supervisor" not in str(made)
    # Starts that come to nothing are counted here as well.
    (template,) = pod_templates(made)
    told = environment(template["spec"]["containers"][0])
    assert told["SEATRIAL_ATTEMPT"] == "slim-7b-attempt-1"
    assert told["SEATRIAL_FRUITLESS_STARTS"] == "11"


def test_on_hyperpod_a_pytorchjob_asks_for_new_nodes_in_the_place_of_faulty_ones() -> None:
    resumed = "sagemaker.amazonaws.com/enable-job-auto-resume"
    made = job(*HYPERPOD[:2], "cluster.operator=pytorchjob", "cluster.restarts=3")
    assert made["metadata"]["annotations"][resumed] == "true"
    retries = made["metadata"]["annotations"]["sagemaker.amazonaws.com/job-max-retry-count"]
    assert retries == "3"
    assert resumed not in job()["metadata"]["annotations"]


@pytest.mark.parametrize("preflight", [True, False])
def test_the_first_node_is_found_before_it_is_ready(preflight: bool) -> None:
    made = manifests(f"cluster.preflight={str(preflight).lower()}")
    (service,) = [m for m in made if m["metadata"]["name"] == "slim-7b--meeting"]
    assert service["spec"]["publishNotReadyAddresses"]
    jobset = runtime()["spec"]["template"]["spec"]["network"]
    assert jobset["publishNotReadyAddresses"]


def test_the_kubelet_asks_the_supervisor() -> None:
    for template in (*pod_templates(job()), *pod_templates(runtime())):
        (container,) = template["spec"]["containers"]
        place = next(w for w in container["command"] if w.startswith("--directory="))
        for kind in ("startup", "liveness"):
            words = container[f"{kind}Probe"]["exec"]["command"]
            assert words[-2:] == [kind, place.removeprefix("--directory=")]
        # Kubernetes refuses probes of init containers.
        assert "Probe" not in str(template["spec"].get("initContainers"))


OPERATORS = {
    Operator.PYTORCHJOB: (),
    Operator.TRAINJOB: (TRAINJOB,),
    Operator.HYPERPOD: HYPERPOD,
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_queue_admits_the_job_and_places_its_pods(operator: Operator) -> None:
    queue = ("cluster.queue=research", "cluster.topology={level: example.com/block}")
    made = manifests(*OPERATORS[operator], *queue)
    assert made[-1]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "research"
    for template in (t for m in made[-2:] for t in pod_templates(m)):
        placed = template["metadata"]["annotations"]["kueue.x-k8s.io/podset-preferred-topology"]
        assert placed == "example.com/block"
    # Kueue suspends it itself; said here, it would stop the run whenever it is applied again.
    assert "suspend" not in str(made[-1]["spec"])
    required = manifests(
        *OPERATORS[operator],
        *("cluster.queue=research", "cluster.topology={level: example.com/block, required: true}"),
    )
    assert "kueue.x-k8s.io/podset-required-topology" in str(required[-2:])


@pytest.mark.parametrize("gang", ["coscheduling", "volcano"])
def test_a_gang_scheduler_is_told_by_the_operators_own_field(gang: str) -> None:
    policy = job(f"cluster.gang={gang}")["spec"]["runPolicy"]["schedulingPolicy"]
    assert policy["minAvailable"] == 2
    assert list(runtime(f"cluster.gang={gang}")["spec"]["podGroupPolicy"]) == [gang]
    assert "schedulingPolicy" not in job()["spec"]["runPolicy"]
    assert "podGroupPolicy" not in runtime()["spec"]


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_job_says_where_it_came_from(operator: Operator) -> None:
    plan = resolved(*OPERATORS[operator])
    made = job(*OPERATORS[operator])
    annotations = made["metadata"]["annotations"]
    assert annotations["seatrial.dev/spec-digest"] == spec_digest(plan.spec)
    assert annotations["seatrial.dev/plan-digest"] == plan.digest
    assert annotations["seatrial.dev/code-digest"] == FIRST.code_digest
    labels = made["metadata"]["labels"]
    assert labels["seatrial.dev/run"] == "slim-7b"
    assert labels["seatrial.dev/attempt"] == "1"
    assert spec_digest(plan.spec).partition(":")[2].startswith(labels["seatrial.dev/spec"])
    assert all(len(value) <= 63 for value in labels.values())


def test_the_spec_is_the_same_in_other_words() -> None:
    described = resolved("description=for the talk")
    assert spec_digest(described.spec) == spec_digest(resolved().spec)
    assert spec_digest(resolved("training.steps=999").spec) != spec_digest(resolved().spec)


def test_a_second_submission_bears_the_same_name() -> None:
    assert job(attempt=EXCLUDING)["metadata"]["name"] == job()["metadata"]["name"] == "slim-7b"


def test_a_priority_class_reaches_the_pods() -> None:
    for template in pod_templates(job("cluster.priority_class=urgent")):
        assert template["spec"]["priorityClassName"] == "urgent"


def test_an_operator_without_a_job_is_not_rendered_as_another() -> None:
    made = scene()
    machines = replace(made.plan.machines, operator=Operator.TORCHRUN)
    local = replace(made, plan=replace(made.plan, machines=machines))
    with pytest.raises(ValueError, match="torchrun has no job"):
        job_manifests(local)
