# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A short-lived pod that reads a run's volume, so that a laptop sees what lies there."""

from collections.abc import Sequence

from seatrial.rendering.commands import PYTHON
from seatrial.rendering.environment import SCRATCH, literal, plain
from seatrial.rendering.manifest import Manifest, manifest
from seatrial.rendering.names import Component, metadata
from seatrial.rendering.pod import account_parts
from seatrial.rendering.resources import small_resources
from seatrial.rendering.scene import Scene
from seatrial.rendering.security import container_security, pod_security, user_of
from seatrial.rendering.spec_config import spec_mount
from seatrial.rendering.volumes import scratch_mount, storage_mount

CONTAINER = "read"
LONGEST_SECONDS = 6 * 3600
"""A reader that nobody waits for any more ends by itself."""


def reader_pod(scene: Scene, words: Sequence[str], suffix: str) -> Manifest:
    """A pod that runs one command of Seatrial over the volume, which it cannot write to.

    It has no secret, no token of the API server and no capability, and runs as the user whose
    files it reads.
    """
    mounts = [storage_mount(scene, read_only=True), scratch_mount(), spec_mount(scene.plan)]
    container: Manifest = {
        "name": CONTAINER,
        "image": scene.data_image.reference,
        "imagePullPolicy": "IfNotPresent",
        "command": [PYTHON, "-m", "seatrial", *(literal(word) for word in words)],
        "env": plain({"HOME": SCRATCH, "HF_HOME": f"{SCRATCH}/huggingface", "COLUMNS": "100"}),
        "resources": small_resources("1", "4Gi"),
        "securityContext": container_security(),
        "volumeMounts": [mount.mount for mount in mounts],
    }
    return manifest(
        "v1",
        "Pod",
        metadata(scene.plan, Component.DATA, f"reader-{suffix}"),
        spec={
            **account_parts(scene),
            "restartPolicy": "Never",
            "activeDeadlineSeconds": LONGEST_SECONDS,
            "enableServiceLinks": False,
            "securityContext": pod_security(user_of(scene)),
            "volumes": [mount.volume for mount in mounts],
            "containers": [container],
        },
    )
