# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A short-lived pod that runs a command on a run's volume, for users without access to it."""

import math
from dataclasses import dataclass
from enum import Enum

from seatrial.planning.plan import PlannedModel
from seatrial.rendering.context import Scene
from seatrial.rendering.environment import SCRATCH, SITE, plain
from seatrial.rendering.expansion import Command
from seatrial.rendering.manifest import Manifest, manifest, without_empty
from seatrial.rendering.names import Component, metadata
from seatrial.rendering.pod import account_parts, install_containers
from seatrial.rendering.resources import small_resources
from seatrial.rendering.scheduling import cpu_affinity, cpu_tolerations
from seatrial.rendering.security import container_security, pod_security, user_of
from seatrial.rendering.spec_config import catalog_environment, spec_mount
from seatrial.rendering.volumes import lock_mount, scratch_mount, site_mount, storage_mount

CONTAINER = "read"
LONGEST_SECONDS = 6 * 3600
"""Deadline of a reader pod, in case nobody waits for it any more."""
MEMORY_GIB = 4
"""Memory for any command, in addition to a model's weights."""


class VolumeReading(Enum):
    """How a command accesses the volume."""

    LOOKS = "looks"
    """Reads only."""
    NOTES = "notes"
    """Writes notes, or deletes old files."""
    EXPORTS = "exports"
    """Needs the engine, and writes weights."""
    COMPARES = "compares"
    """Writes weights, and then computes with the whole model."""

    @property
    def needs_engine(self) -> bool:
        """True if it runs in the training image."""
        return self in (VolumeReading.EXPORTS, VolumeReading.COMPARES)


@dataclass(frozen=True, slots=True)
class VolumeCommand:
    """A Seatrial command that a pod runs on the volume."""

    words: tuple[str, ...]
    """The arguments after `seatrial`."""
    reading: VolumeReading = VolumeReading.LOOKS


def reader_part(number: str) -> str:
    """Return the name part of one reader: its pod, and the ConfigMap with its spec."""
    return f"reader-{number}"


def reader_pod(scene: Scene, command: VolumeCommand, number: str) -> Manifest:
    """Return a pod that runs one Seatrial command on the volume.

    Its spec is in a ConfigMap of the same name, so the run's own stays unchanged. The pod has no
    secrets, no API server token and no capabilities. It runs as the user that owns the files.
    """
    reading = command.reading
    in_engine = reading.needs_engine
    installs = in_engine and not scene.image.brings_worker
    storage = storage_mount(scene, read_only=reading is VolumeReading.LOOKS)
    mounts = [storage, scratch_mount(), spec_mount(scene.plan, reader_part(number))]
    mounts += [site_mount()] if installs else []
    variables = {"HOME": SCRATCH, "HF_HOME": f"{SCRATCH}/huggingface", "COLUMNS": "100"}
    variables |= {"PYTHONPATH": SITE} if installs else {}
    variables |= catalog_environment(scene)
    memory = MEMORY_GIB + weights_gib(scene.plan.model, reading)
    container: Manifest = {
        "name": CONTAINER,
        "image": (scene.image if in_engine else scene.data_image).reference,
        "imagePullPolicy": "IfNotPresent",
        "command": Command(module="seatrial", words=command.words).in_container(),
        "env": plain(variables),
        "resources": small_resources("1", f"{memory}Gi"),
        "securityContext": container_security(),
        "volumeMounts": [mount.mount for mount in mounts],
    }
    volumes = [*mounts, lock_mount()] if installs else mounts
    return manifest(
        "v1",
        "Pod",
        metadata(scene.plan, Component.DATA, reader_part(number)),
        spec={
            **account_parts(scene),
            # The training image may be for another architecture than the nodes without GPUs.
            **({} if in_engine else {"affinity": cpu_affinity(scene)}),
            **without_empty({"tolerations": cpu_tolerations(scene)}),
            "restartPolicy": "Never",
            "activeDeadlineSeconds": LONGEST_SECONDS,
            "enableServiceLinks": False,
            "securityContext": pod_security(user_of(scene)),
            "volumes": [mount.volume for mount in volumes],
            **without_empty({"initContainers": install_containers(scene) if installs else []}),
            "containers": [container],
        },
    )


def weights_gib(model: PlannedModel, reading: VolumeReading) -> int:
    """Return the memory in GiB that a command needs for weights in single precision."""
    numbers = 0
    if reading.needs_engine:
        # One layer or the embedding at a time, in three copies: as saved, converted and written.
        shape = model.architecture
        embedding = model.padded_vocab_size * shape.hidden_size
        numbers = 3 * max(embedding, model.parameters // shape.layers)
    if reading is VolumeReading.COMPARES:
        # The model, and the weights that are loaded into it.
        numbers = max(numbers, 2 * model.parameters)
    return math.ceil(4 * numbers / (1 << 30))
