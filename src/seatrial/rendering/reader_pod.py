# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A short-lived pod that works on a run's volume, so that a laptop sees what lies there."""

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
from seatrial.rendering.security import container_security, pod_security, user_of
from seatrial.rendering.spec_config import catalog_environment, spec_mount
from seatrial.rendering.volumes import lock_mount, scratch_mount, site_mount, storage_mount

CONTAINER = "read"
LONGEST_SECONDS = 6 * 3600
"""A reader that nobody waits for any more ends by itself."""
MEMORY_GIB = 4
"""What any command needs at most beside a model's weights."""


class VolumeReading(Enum):
    """What a command does with the volume."""

    LOOKS = "looks"
    """It reads, and cannot write."""
    NOTES = "notes"
    """It writes down what it has found, or removes what is old."""
    EXPORTS = "exports"
    """It needs the engine, and writes weights."""
    COMPARES = "compares"
    """It writes weights too, and then computes with the whole model."""

    @property
    def needs_engine(self) -> bool:
        """Whether it runs in the image of the training."""
        return self in (VolumeReading.EXPORTS, VolumeReading.COMPARES)


@dataclass(frozen=True, slots=True)
class VolumeCommand:
    """A command of Seatrial that a pod runs over the volume."""

    words: tuple[str, ...]
    """What stands behind `seatrial`."""
    reading: VolumeReading = VolumeReading.LOOKS


def reader_part(number: str) -> str:
    """The part of a run that is one reader: the pod, and the config map with its spec."""
    return f"reader-{number}"


def reader_pod(scene: Scene, command: VolumeCommand, number: str) -> Manifest:
    """A pod that runs one command of Seatrial over the volume.

    Its spec is in a config map of the same name, so that the spec of the run stays. It has no
    secret, no token of the API server and no capability, and runs as the user whose files it reads.
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
    """Memory that a command needs for weights, all in single precision."""
    numbers = 0
    if reading.needs_engine:
        # One layer at a time, or the embedding: as it was saved, is arranged, and is written.
        shape = model.architecture
        embedding = model.padded_vocab_size * shape.hidden_size
        numbers = 3 * max(embedding, model.parameters // shape.layers)
    if reading is VolumeReading.COMPARES:
        # The model, and what is loaded into it.
        numbers = max(numbers, 2 * model.parameters)
    return math.ceil(4 * numbers / (1 << 30))
