# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Data preparation on the cluster: three Jobs, or a RayJob.

Both produce the same bytes: the same kernel runs each task, and the task's record decides (ADR 7).
The Jobs can start in any order: the workers wait for the task list, and the last Job waits for the
workers. `data prepare --on kubernetes` submits the same Jobs one after the other.
"""

import shlex

from seatrial.hashing import digest
from seatrial.rendering.context import Scene
from seatrial.rendering.environment import SCRATCH, identity, plain, with_secrets
from seatrial.rendering.expansion import Command, Option
from seatrial.rendering.manifest import Manifest, manifest, without_empty
from seatrial.rendering.names import Component, metadata, spec_digest
from seatrial.rendering.pod import account_parts, cpu_pod_metadata
from seatrial.rendering.resources import quantity, small_resources
from seatrial.rendering.scheduling import cpu_affinity, cpu_tolerations, queue_labels
from seatrial.rendering.security import container_security, pod_security, user_of
from seatrial.rendering.spec_config import (
    DATA_PART,
    DIRECTORY,
    FILE,
    catalog_environment,
    spec_mount,
)
from seatrial.rendering.volumes import Mount, scratch_mount, secret_mounts, storage_mount

TASKS = "data"
"""Name part of the job that runs all tasks."""
LISTING = "data-list"
"""Name part of the job that freezes the task list."""
ASSEMBLY = "data-end"
"""Name part of the job that assembles the output."""
TRIES = 5
"""Maximum number of retries of a task after a transient failure."""
BAD_INPUT = 1
"""The exit code of a task with bad input, which is not retried."""
BAD_USAGE = 2
"""The exit code of a command with bad usage."""
KEEP_SECONDS = 7 * 86_400
"""How long a finished job and its pods are kept for inspection."""
RAY_VERSION = "2.60.0"
"""The Ray version in the data preparation image."""
INPUTS = "seatrial.dev/inputs-digest"
"""The annotation with the digest of a job's inputs: spec, image and command."""


def jobs(scene: Scene) -> list[Manifest]:
    """Return the three jobs of a preparation, in order: list, run the tasks, assemble."""
    made = [listing_job(scene), indexed_job(scene), assembly_job(scene)]
    spec = spec_digest(scene.plan.spec)
    for job in made:
        inputs = digest({"spec": spec, "job": job["spec"]})
        job["metadata"]["annotations"] = job["metadata"].get("annotations", {}) | {INPUTS: inputs}
    return made


def indexed_job(scene: Scene) -> Manifest:
    """Return a job whose pods share the tasks. A pod is retried, unless its input is bad."""
    pods = scene.plan.spec.cluster.preparation
    command = Command(
        module="seatrial.dataprep.drivers.single",
        options={"at": scene.plan.data_location, "workers": pods.pods},
    )
    template = _pod(scene, command, small_resources(str(pods.cpus), quantity(pods.memory)))
    template["spec"]["restartPolicy"] = "Never"
    return manifest(
        "batch/v1",
        "Job",
        _metadata(scene, TASKS),
        spec={
            "completionMode": "Indexed",
            "completions": pods.pods,
            "parallelism": pods.pods,
            "backoffLimitPerIndex": TRIES,
            # One permanently failed task makes the data set incomplete.
            "maxFailedIndexes": 0,
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "Ignore",
                        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                    },
                    {
                        "action": "FailIndex",
                        "onExitCodes": {
                            "containerName": "prepare",
                            "operator": "In",
                            "values": [BAD_INPUT],
                        },
                    },
                ]
            },
            "ttlSecondsAfterFinished": KEEP_SECONDS,
            "template": template,
        },
    )


def listing_job(scene: Scene) -> Manifest:
    """Return the job that freezes the task list. The last log line is the list as JSON."""
    return _step(scene, LISTING, {"list-only": True, "json": True})


def assembly_job(scene: Scene) -> Manifest:
    """Return the job that waits for the tasks, and assembles and verifies their output."""
    return _step(scene, ASSEMBLY, {"driver": "pods", "json": True})


def _step(scene: Scene, part: str, options: dict[str, Option]) -> Manifest:
    """Return a job with one pod that runs `data prepare`."""
    pods = scene.plan.spec.cluster.preparation
    resources = small_resources(str(pods.cpus), quantity(pods.memory))
    template = _pod(scene, _prepare_command(options), resources)
    template["spec"]["restartPolicy"] = "Never"
    return manifest(
        "batch/v1",
        "Job",
        _metadata(scene, part),
        spec={
            "backoffLimit": TRIES,
            "podFailurePolicy": {
                "rules": [
                    {
                        "action": "FailJob",
                        "onExitCodes": {
                            "containerName": "prepare",
                            "operator": "In",
                            "values": [BAD_INPUT, BAD_USAGE],
                        },
                    }
                ]
            },
            "ttlSecondsAfterFinished": KEEP_SECONDS,
            "template": template,
        },
    )


def ray_job(scene: Scene) -> Manifest:
    """Return a job with a temporary Ray cluster for one preparation."""
    pods = scene.plan.spec.cluster.preparation
    worker = _ray_pod(scene, small_resources(str(pods.cpus), quantity(pods.memory)))
    return manifest(
        "ray.io/v1",
        "RayJob",
        _metadata(scene, TASKS),
        spec={
            "entrypoint": shlex.join(_prepare_command({"driver": "ray"}).on_host()),
            # Finished tasks are kept on the volume, so a retry continues from there.
            "backoffLimit": TRIES,
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": KEEP_SECONDS,
            "submitterPodTemplate": _submitter(scene),
            "rayClusterSpec": {
                "rayVersion": RAY_VERSION,
                "headGroupSpec": {
                    # Workers run the tasks. The head lists, assembles and serves the dashboard.
                    "rayStartParams": {"num-cpus": "0"},
                    "template": _ray_pod(scene, small_resources("4", "16Gi")),
                },
                "workerGroupSpecs": [
                    {
                        "groupName": "workers",
                        "replicas": pods.pods,
                        "minReplicas": pods.pods,
                        "maxReplicas": pods.pods,
                        "rayStartParams": {},
                        "template": worker,
                    }
                ],
            },
        },
    )


def _prepare_command(options: dict[str, Option]) -> Command:
    words = ("data", "prepare", f"{DIRECTORY}/{FILE}")
    return Command(module="seatrial", words=words, options=options)


def _metadata(scene: Scene, part: str) -> Manifest:
    head = metadata(scene.plan, Component.DATA, part)
    head["labels"] = head["labels"] | queue_labels(scene)
    return head


def _mounts(scene: Scene) -> list[Mount]:
    plan = scene.plan
    spec = spec_mount(plan, DATA_PART)
    return [storage_mount(scene), scratch_mount(), spec, *secret_mounts(scene)]


def _pod(scene: Scene, command: Command | None, resources: Manifest) -> Manifest:
    """Return a pod for data preparation: no GPU, no fabric, no capabilities."""
    mounts = _mounts(scene)
    variables = {"HOME": SCRATCH, "HF_HOME": f"{SCRATCH}/huggingface", "PYTHONUNBUFFERED": "1"}
    variables |= catalog_environment(scene)
    container: Manifest = {
        "name": "prepare",
        "image": scene.data_image.reference,
        "imagePullPolicy": "IfNotPresent",
        **({"command": command.in_container()} if command else {}),
        "env": with_secrets([*identity(), *plain(variables)], scene),
        "resources": resources,
        "securityContext": container_security(),
        "volumeMounts": [mount.mount for mount in mounts],
    }
    return {
        "metadata": cpu_pod_metadata(scene, Component.DATA),
        "spec": {
            **account_parts(scene),
            **without_empty({"priorityClassName": scene.plan.spec.cluster.priority_class}),
            "affinity": cpu_affinity(scene),
            **without_empty({"tolerations": cpu_tolerations(scene)}),
            "enableServiceLinks": False,
            # The same user as training, because both write into the run's directory.
            "securityContext": pod_security(user_of(scene)),
            "volumes": [mount.volume for mount in mounts],
            "containers": [container],
        },
    }


def _ray_pod(scene: Scene, resources: Manifest) -> Manifest:
    """Return a pod of the Ray cluster. KubeRay sets its command."""
    template = _pod(scene, None, resources)
    template["spec"]["containers"][0]["name"] = "ray"
    return template


def _submitter(scene: Scene) -> Manifest:
    """Return the pod that submits the job to Ray and waits for it. It mounts no data."""
    template = _pod(scene, None, small_resources("1", "1Gi"))
    spec = template["spec"]
    spec["restartPolicy"] = "Never"
    spec["volumes"] = [scratch_mount().volume]
    spec["containers"][0] |= {
        "name": "submit",
        "volumeMounts": [scratch_mount().mount],
        "env": plain({"HOME": SCRATCH}),
    }
    return template
