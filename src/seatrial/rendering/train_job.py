# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""TrainJob and TrainingRuntime: Kubeflow Trainer v2, based on JobSet.

The runtime is the run: it contains the whole pod. The TrainJob is the attempt: it references the
runtime, and overrides what differs this time. The override field was renamed twice within v1alpha1
(CHANGELOG-2.2 of kubeflow/trainer).
"""

from dataclasses import replace
from enum import StrEnum

from seatrial.rendering.attempt import GangScheduler
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

API = "trainer.kubeflow.org/v1alpha1"
JOB = "node"
"""The name of the replicated job that trains and of its container, defined by the operator."""
NODES = "nodes"
"""Name part of the service that gives every pod a host name.

By default it has the name of the run. A run `NAME-master-0` would then conflict with the service
that the Training Operator creates for the first pod of a run `NAME`."""
MANAGER = "seatrial.dev/attempt"
"""The manager of our patch of the runtime."""
INDEX = "JOB_COMPLETION_INDEX"
"""The variable with the pod's index in an Indexed Job, also in init containers."""


class TrainerApi(StrEnum):
    """The variants of the Trainer v2 API, by the first version of each."""

    V2_0 = "2.0"
    """`podSpecOverrides`, which does not support node affinity."""
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
"""The versions whose CRDs the manifests were checked against."""


def trainer_api(version: str | None) -> TrainerApi | None:
    """Return the API variant of a version; None if the version is unknown."""
    return _FORMS.get(".".join((version or NEWEST).split(".")[:2]))


def training_runtime(scene: Scene, api: TrainerApi) -> Manifest:
    """Return the runtime of the run. From 2.1 on, it is the same for all attempts."""
    shown = scene if api is TrainerApi.V2_0 else _any_attempt(scene)
    job: Manifest = {
        "name": JOB,
        "replicas": 1,
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {
                # A failed pod fails the job, and JobSet then restarts all nodes together.
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
    """Fail the job with a distinct reason if the worker's exit code is permanent."""
    codes = {"containerName": JOB, "operator": "In", "values": list(FINAL_CODES)}
    return {"rules": [{"action": "FailJob", "onExitCodes": codes}]}


def _final_jobs() -> Manifest:
    """Do not restart the nodes for that reason (JobSet, FailurePolicyRule)."""
    return {
        "name": "final",
        "action": "FailJobSet",
        "onJobFailureReasons": ["PodFailurePolicy"],
        "targetReplicatedJobs": [JOB],
    }


def train_job(scene: Scene, api: TrainerApi) -> Manifest:
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
    """Return the scene without the excluded nodes of an attempt."""
    return replace(scene, attempt=replace(scene.attempt, excluded_nodes=()))


def _overrides(scene: Scene, api: TrainerApi) -> Manifest:
    """Return this attempt's overrides of the runtime: the excluded nodes."""
    if not scene.attempt.excluded_nodes or api is TrainerApi.V2_0:
        return {}
    # Repeat the whole affinity: overrides replace its lists.
    spec: Manifest = {"affinity": affinity(scene)}
    if api is TrainerApi.V2_1:
        return {"podTemplateOverrides": [{"targetJobs": [{"name": JOB}], "spec": spec}]}
    job = {"name": JOB, "template": {"spec": {"template": {"spec": spec}}}}
    patch = {"template": {"spec": {"replicatedJobs": [job]}}}
    return {"runtimePatches": [{"manager": MANAGER, "trainingRuntimeSpec": patch}]}


def _gang(scene: Scene) -> Manifest:
    """Return the gang scheduling policy."""
    if scene.gang is GangScheduler.COSCHEDULING:
        return {"coscheduling": {"scheduleTimeoutSeconds": GANG_WAIT_SECONDS}}
    return {"volcano": {}} if scene.gang is GangScheduler.VOLCANO else {}


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
