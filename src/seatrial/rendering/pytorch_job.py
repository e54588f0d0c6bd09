# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""PyTorchJob: Kubeflow Training Operator v1 (1.8 and 1.9 have the same fields)."""

from seatrial.rendering.attempt import GangScheduler
from seatrial.rendering.commands import RENDEZVOUS_PORT, PodRendezvous, training_command
from seatrial.rendering.context import Scene
from seatrial.rendering.expansion import Reference
from seatrial.rendering.manifest import Manifest, manifest, without_empty
from seatrial.rendering.names import Component, attempt_metadata, object_name
from seatrial.rendering.network import MEETING
from seatrial.rendering.pod import Role, training_pod
from seatrial.rendering.scheduling import GANG_WAIT_SECONDS, queue_labels

KEEP_SECONDS = 7 * 86_400
"""How long a finished job and its pods are kept for inspection."""
CONTAINER = "pytorch"
"""The operator's webhook rejects a job without a container of this name."""
INDEX = "SEATRIAL_REPLICA_INDEX"
"""The operator sets the rank in its containers, but not in init containers."""


def pytorch_job(scene: Scene) -> Manifest:
    """Return the job: node 0 is the master, the others are workers."""
    machines = scene.plan.machines
    replicas = {"Master": _replica(scene, 1, first_rank=0)}
    if machines.nodes > 1:
        replicas["Worker"] = _replica(scene, machines.nodes - 1, first_rank=1)
    head = attempt_metadata(scene.plan, scene.attempt, Component.TRAINING)
    head["labels"] = head["labels"] | queue_labels(scene)
    if scene.profile.auto_resume:
        head["annotations"] = head["annotations"] | _auto_resume(scene)
    return manifest(
        "kubeflow.org/v1",
        "PyTorchJob",
        head,
        spec={
            "nprocPerNode": str(machines.processes_per_node),
            "runPolicy": _run_policy(scene),
            "pytorchReplicaSpecs": replicas,
        },
    )


def _auto_resume(scene: Scene) -> dict[str, str]:
    """Return the annotations that make HyperPod replace a faulty node and resume the job.

    This works in namespaces that are called kubeflow or start with hyperpod (AWS, "Running jobs
    using kubectl" and "using the SageMaker HyperPod CLI").
    """
    prefix = "sagemaker.amazonaws.com"
    return {
        f"{prefix}/enable-job-auto-resume": "true",
        f"{prefix}/job-max-retry-count": str(scene.plan.spec.cluster.restarts),
    }


def _run_policy(scene: Scene) -> Manifest:
    nodes = scene.plan.machines.nodes
    return {
        # Stop running pods when the job finishes, and keep finished pods for their logs.
        "cleanPodPolicy": "Running",
        "ttlSecondsAfterFinished": KEEP_SECONDS,
        # The operator adds up the restarts of all containers, and one failed node restarts all
        # (pkg/core/job.go, PastBackoffLimit).
        "backoffLimit": scene.plan.spec.cluster.restarts * nodes + 1,
        **without_empty({"schedulingPolicy": _gang(scene)}),
    }


def _gang(scene: Scene) -> Manifest:
    """Return the gang scheduling policy. The operator's configuration selects the scheduler."""
    if scene.gang not in (GangScheduler.COSCHEDULING, GangScheduler.VOLCANO):
        return {}
    return without_empty(
        {
            "minAvailable": scene.plan.machines.nodes,
            "scheduleTimeoutSeconds": GANG_WAIT_SECONDS,
            "priorityClass": scene.plan.spec.cluster.priority_class,
        }
    )


def _replica(scene: Scene, count: int, *, first_rank: int) -> Manifest:
    # The operator's service resolves the first node only when its pod is ready, which depends on
    # its probes. Our service resolves it earlier. The first node can always resolve its own name.
    first = object_name(scene.plan, MEETING)
    # RANK is the node rank here: the operator counts nodes (kubeflow/trainer#1790).
    meeting = PodRendezvous(
        Reference("RANK"), first if first_rank else f"{scene.plan.spec.name}-master-0"
    )
    before = PodRendezvous(Reference(INDEX), first, first_rank)
    role = Role(
        container=CONTAINER,
        command=training_command(scene, meeting),
        preflight=before,
        # The operator sets it in the pod.
        restart_policy="",
        ports=(("pytorchjob-port", RENDEZVOUS_PORT),),
        preflight_env=(_replica_index(),),
    )
    # Not ExitCode: it treats every code below 128 as permanent, but a pod that is asked to stop
    # exits with 75, so a drain would end the run. It also ignores backoffLimit
    # (kubeflow/training-operator#2045), and HyperPod's auto-resume requires OnFailure. The
    # supervisor remembers a permanent exit code itself.
    return {"replicas": count, "restartPolicy": "OnFailure", "template": training_pod(scene, role)}


def _replica_index() -> Manifest:
    path = "metadata.labels['training.kubeflow.org/replica-index']"
    return {"name": INDEX, "valueFrom": {"fieldRef": {"fieldPath": path}}}
