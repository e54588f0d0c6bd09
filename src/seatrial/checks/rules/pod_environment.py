# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about what pods find around them: buckets, servers, users of volumes, processors."""

import re
from collections.abc import Iterator

from seatrial.checks.rule import Checked, Situation, proposed, static
from seatrial.checks.rules.paths import mount_of
from seatrial.codes.checks import CheckCode
from seatrial.engines.registry import ENGINES
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.context import scene_of
from seatrial.rendering.security import user_of

BUCKETS = ("s3://", "gs://", "abfs://", "abfss://", "az://")
KEYS = re.compile(r"AWS_|AZURE_|GOOGLE_|GCS_|FSSPEC_")
"""How the variables begin by which the libraries of the clouds take keys."""
HERE = re.compile(r"^[a-z]+://(localhost|127\.|0\.0\.0\.0|\[::1\])")
ARM = ("gb200", "gb300", "gh200")
"""Accelerators whose nodes have Grace, an Arm processor (notes of their node types)."""
OTHER_NAMES = re.compile(r"(^|[-_/:.])(amd64|x86[-_]64|x86)([-_:.@]|$)")
"""An image that is named for other processors."""
FOR_ROOT = ("azurelustre.csi.azure.com",)
"""Drivers whose new file systems belong to root, and that change no owner."""


def no_identity(situation: Situation) -> Iterator[Checked]:
    """A bucket, and nothing that would let pods read it."""
    cluster = situation.spec.cluster
    given = cluster.service_account or cluster.identity
    keys = any(KEYS.match(secret.env or "") or secret.mount for secret in cluster.secrets)
    if not situation.in_pods or given or keys:
        return
    for number, source in enumerate(situation.spec.data.sources or ()):
        address = source.from_ or source.prepared or ""
        if address.startswith(BUCKETS):
            name = "from" if source.from_ else "prepared"
            yield situation.warning(
                CheckCode.NO_IDENTITY,
                f"data.sources[{number}].{name}",
                f"pods have no service account, identity or keys for {address}: what the node "
                "itself may read decides.",
                "Name an account that may by cluster.service_account, or make one by "
                "cluster.identity.",
                address,
            )
            return


def no_directory(situation: Situation) -> Iterator[Checked]:
    """Checkpoints to an address of an object store, which no engine keeps them in as it should."""
    location = situation.spec.checkpoints.location or ""
    if "://" not in location:
        return
    rule = (
        f"the engine writes files, and would make a directory called {location.split('/')[0]} in "
        "the container, which ends with the pod."
    )
    if ENGINES[situation.spec.engine.name].saves_to_object_stores:
        rule = (
            f"a save counts by its record, which is kept on a volume: of {location} nothing would "
            "be verified, and a restart would load whatever was written last."
        )
    own = f"{mount_of(situation)}/checkpoints/{situation.spec.name}"
    yield situation.error(
        CheckCode.NO_DIRECTORY,
        "checkpoints.location",
        rule,
        f"Use {own}; seatrial checkpoints copy brings them to a bucket.",
        location,
        proposed(f"checkpoints.location={own}"),
    )


def not_writable(situation: Situation) -> Iterator[Checked]:
    """A new volume that belongs to root, and processes of another user."""
    if not situation.in_pods or situation.spec.cluster.storage.claim is not None:
        return
    scene = scene_of(situation.plan, situation.catalog, Attempt())
    existing = situation.spec.cluster.storage.volume is not None
    if scene.tier is None or existing or scene.tier.csi_driver not in FOR_ROOT:
        return
    user = user_of(scene)
    if user:
        yield situation.warning(
            CheckCode.NOT_WRITABLE,
            "cluster.run_as_user",
            f"a new volume of {situation.plan.machines.storage} belongs to root, and the processes "
            f"run as user {user}: nothing could be written.",
            "Use 0, or have the directory given to that user once it is there.",
            user,
            proposed("cluster.run_as_user=0"),
        )


def local_server(situation: Situation) -> Iterator[Checked]:
    """A server at localhost, which in a pod is the pod."""
    mlflow = situation.spec.monitoring.mlflow
    if mlflow is not None and situation.in_pods and HERE.match(mlflow.tracking_uri):
        yield situation.error(
            CheckCode.LOCAL_SERVER,
            "monitoring.mlflow.tracking_uri",
            f"{mlflow.tracking_uri} is the pod itself, where no server runs.",
            "Give the address by which pods reach the server, such as "
            "http://mlflow.NAMESPACE.svc.cluster.local:5000.",
            mlflow.tracking_uri,
        )


def other_processor(situation: Situation) -> Iterator[Checked]:
    """An image that is named for x86 on nodes with Arm processors."""
    machines = situation.plan.machines
    if machines.accelerator in ARM and OTHER_NAMES.search(machines.image):
        yield situation.error(
            CheckCode.OTHER_PROCESSOR,
            "cluster.image",
            f"{machines.node_type} has Arm processors, and {machines.image} is named for x86: no "
            "container would start.",
            "Use an image for arm64, or one for both.",
            machines.image,
        )


RULES = (
    static(CheckCode.NO_IDENTITY, look=no_identity),
    static(CheckCode.NO_DIRECTORY, look=no_directory),
    static(CheckCode.NOT_WRITABLE, look=not_writable),
    static(CheckCode.LOCAL_SERVER, look=local_server),
    static(CheckCode.OTHER_PROCESSOR, look=other_processor),
)
