# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""HyperPodPyTorchJob: the training operator of Amazon SageMaker HyperPod.

It starts processes with `hyperpodrun`, which is torchrun with an agent for the operator. The image
needs the package hyperpod-elastic-agent. Only that agent can tell which node is the first, so the
preflight checks each node separately, without an all-reduce. HyperPod tests the network itself
(deep health checks).
"""

from seatrial.rendering.commands import attempt_name, hyperpod_command
from seatrial.rendering.context import Scene
from seatrial.rendering.environment import plain
from seatrial.rendering.manifest import Manifest, manifest
from seatrial.rendering.names import Component, attempt_metadata
from seatrial.rendering.pod import Role, training_pod
from seatrial.rendering.pytorch_job import CONTAINER, KEEP_SECONDS
from seatrial.rendering.scheduling import queue_labels

RESTARTS_IN_PLACE = 3
"""Process restarts before a restart of the whole job, as in AWS's examples."""
EVALUATION_SECONDS = 21_600
"""The period in which restarts are counted."""


def hyperpod_job(scene: Scene) -> Manifest:
    """Return the job, with one pod template for all nodes."""
    machines = scene.plan.machines
    restarts = scene.plan.spec.cluster.restarts
    head = attempt_metadata(scene.plan, scene.attempt, Component.TRAINING)
    head["labels"] = head["labels"] | queue_labels(scene)
    role = Role(
        container=CONTAINER,
        command=hyperpod_command(scene),
        preflight=None,
        restart_policy="",
        # HyperPod's agent restarts processes on the operator's request.
        supervised=False,
        # Restarts without progress are counted next to the checkpoints, as a supervisor does.
        env=tuple(
            plain(
                {
                    "SEATRIAL_ATTEMPT": attempt_name(scene),
                    "SEATRIAL_FRUITLESS_STARTS": str(restarts + 1),
                }
            )
        ),
    )
    return manifest(
        "sagemaker.amazonaws.com/v1",
        "HyperPodPyTorchJob",
        head,
        spec={
            "nprocPerNode": str(machines.processes_per_node),
            "runPolicy": {
                "cleanPodPolicy": "None",
                "ttlSecondsAfterFinished": KEEP_SECONDS,
                "jobMaxRetryCount": restarts,
                "restartPolicy": {
                    "evalPeriodSeconds": EVALUATION_SECONDS,
                    "numRestartBeforeFullJobRestart": min(RESTARTS_IN_PLACE, restarts),
                    "maxFullJobRestarts": restarts,
                },
            },
            "replicaSpecs": [
                {
                    "name": "pods",
                    "replicas": machines.nodes,
                    "template": training_pod(scene, role),
                }
            ],
        },
    )
