# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""TrainJob and its TrainingRuntime: Kubeflow Trainer v2, through JobSet.

The runtime is the run: the whole pod. The TrainJob is the attempt: it names the runtime, and says
in the override field of the served version what differs this time. That field was renamed twice
inside v1alpha1 (CHANGELOG-2.2 of kubeflow/trainer).
"""

from dataclasses import replace
from enum import StrEnum

from seatrial.rendering.commands import (
    FINAL_CODES,
    RENDEZVOUS_PORT,
    PodRendezvous,
    training_command,
)
from seatrial.rendering.context import Scene
from seatrial.rendering.expansion import Reference
from seatrial.rendering.manifest import Manifest, manifest, without_empty
from seatrial.rendering.names import (
    Component,
    attempt_metadata,
    digest_labels,
    metadata,
    object_name,
)
from seatrial.rendering.pod import Role, training_pod
from seatrial.rendering.pytorch_job import KEEP_SECONDS
from seatrial.rendering.scheduling import GANG_WAIT_SECONDS, affinity, queue_labels
from seatrial.spec.cluster import Gang

API = "trainer.kubeflow.org/v1alpha1"
JOB = "node"
"""The replicated job that trains, and its container; both names are the operator's."""
NODES = "nodes"
"""The part of a run that is the service by whose name JobSet gives every pod a host name. By
default it has the name of the run, which a run `NAME-master-0` would share with the service that
the Training Operator makes for the first pod of a run `NAME`."""
MANAGER = "seatrial.dev/attempt"
"""Who wrote a patch of the runtime."""
INDEX = "JOB_COMPLETION_INDEX"
"""What Kubernetes tells every container of an Indexed Job, init containers included."""


class TrainerApi(StrEnum):
    """The forms that the API of Trainer v2 has had, by the first version of each."""

    V2_0 = "2.0"
    """`podSpecOverrides`, which cannot say a node affinity."""
    V2_1 = "2.1"
    """`podTemplateOverrides`."""
    V2_2 = "2.2"
    """`runtimePatches`, also in 2.3."""


NEWEST = "2.3"
_FORMS = {
    "2.0": TrainerApi.V2_0,
    "2.1": TrainerApi.V2_1,
    "2.2": TrainerApi.V2_2,
    "2.3": TrainerApi.V2_2,
}
KNOWN_VERSIONS = tuple(_FORMS)
"""The versions whose custom resource definitions manifests were checked against."""


def trainer_api(version: str | None) -> TrainerApi | None:
    """The form of the API in a version; nothing when the version is not known."""
    return _FORMS.get(".".join((version or NEWEST).split(".")[:2]))


def training_runtime(scene: Scene, api: TrainerApi) -> Manifest:
    """The runtime of the run; the same for all its attempts where overrides can say the rest."""
    shown = scene if api is TrainerApi.V2_0 else _any_attempt(scene)
    job: Manifest = {
        "name": JOB,
        "replicas": 1,
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {
                # A pod that fails ends its job, and JobSet then starts all nodes again together.
                "backoffLimit": 0,
                "podFailurePolicy": _final_pods(),
                "template": training_pod(shown, _role(shown)),
            },
        },
    }
    head = metadata(scene.plan, Component.TRAINING)
    head["labels"] = head["labels"] | digest_labels(scene.plan)
    return manifest(
        API,
        "TrainingRuntime",
        head,
        spec={
            "mlPolicy": {"numNodes": scene.plan.machines.nodes, "torch": {}},
            **without_empty({"podGroupPolicy": _gang(scene)}),
            "template": {
                "spec": {
                    "ttlSecondsAfterFinished": KEEP_SECONDS,
                    "failurePolicy": {
                        "maxRestarts": scene.plan.spec.cluster.restarts,
                        "rules": [_final_jobs()],
                    },
                    # Nodes meet in init containers, before any pod is ready.
                    "network": {
                        "enableDNSHostnames": True,
                        "publishNotReadyAddresses": True,
                        "subdomain": object_name(scene.plan, NODES),
                    },
                    "replicatedJobs": [job],
                }
            },
        },
    )


def _final_pods() -> Manifest:
    """Fail the job for a reason of its own where the worker says that no start would help."""
    codes = {"containerName": JOB, "operator": "In", "values": list(FINAL_CODES)}
    return {"rules": [{"action": "FailJob", "onExitCodes": codes}]}


def _final_jobs() -> Manifest:
    """And by that reason do not start all nodes again (JobSet, FailurePolicyRule)."""
    return {
        "name": "final",
        "action": "FailJobSet",
        "onJobFailureReasons": ["PodFailurePolicy"],
        "targetReplicatedJobs": [JOB],
    }


def train_job(scene: Scene, api: TrainerApi) -> Manifest:
    """The job of one attempt."""
    machines = scene.plan.machines
    head = attempt_metadata(scene.plan, scene.attempt, Component.TRAINING)
    head["labels"] = head["labels"] | queue_labels(scene)
    return manifest(
        API,
        "TrainJob",
        head,
        spec={
            "runtimeRef": {
                "apiGroup": "trainer.kubeflow.org",
                "kind": "TrainingRuntime",
                "name": scene.plan.spec.name,
            },
            "trainer": {
                "numNodes": machines.nodes,
                "numProcPerNode": machines.processes_per_node,
            },
            **_overrides(scene, api),
        },
    )


def _any_attempt(scene: Scene) -> Scene:
    """The scene without what belongs to one attempt."""
    return replace(scene, attempt=replace(scene.attempt, excluded_nodes=()))


def _overrides(scene: Scene, api: TrainerApi) -> Manifest:
    """What this attempt changes of the runtime: the nodes that it stays away from."""
    if not scene.attempt.excluded_nodes or api is TrainerApi.V2_0:
        return {}
    # The whole of it, because lists inside an affinity are replaced and not added to.
    spec: Manifest = {"affinity": affinity(scene)}
    if api is TrainerApi.V2_1:
        return {"podTemplateOverrides": [{"targetJobs": [{"name": JOB}], "spec": spec}]}
    job = {"name": JOB, "template": {"spec": {"template": {"spec": spec}}}}
    patch = {"template": {"spec": {"replicatedJobs": [job]}}}
    return {"runtimePatches": [{"manager": MANAGER, "trainingRuntimeSpec": patch}]}


def _gang(scene: Scene) -> Manifest:
    """The scheduler that places all pods together."""
    gang = scene.plan.spec.cluster.gang
    if gang is Gang.COSCHEDULING:
        return {"coscheduling": {"scheduleTimeoutSeconds": GANG_WAIT_SECONDS}}
    return {"volcano": {}} if gang is Gang.VOLCANO else {}


def _role(scene: Scene) -> Role:
    name = scene.plan.spec.name
    meeting = PodRendezvous(Reference(INDEX), f"{name}-{JOB}-0-0.{object_name(scene.plan, NODES)}")
    return Role(
        container=JOB,
        command=training_command(scene, meeting),
        preflight=meeting,
        restart_policy="Never",
        ports=(("rendezvous", RENDEZVOUS_PORT),),
    )
