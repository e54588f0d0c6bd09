# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rules about the environment that pods need: namespace, buckets, servers, volumes, CPUs."""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from seatrial.checks.rule import Checked, Situation, proposed, static
from seatrial.checks.rules.paths import mount_of
from seatrial.codes.checks import CheckCode
from seatrial.engines.registry import ENGINES
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.context import scene_of
from seatrial.rendering.security import user_of
from seatrial.spec.cluster import Operator

BUCKETS = ("s3://", "gs://", "abfs://", "abfss://", "az://")
KEYS = re.compile(r"AWS_|AZURE_|GOOGLE_|GCS_|FSSPEC_")
"""Prefixes of the variables from which cloud libraries read credentials."""
HERE = re.compile(r"^[a-z]+://(localhost|127\.|0\.0\.0\.0|\[::1\])")
ARM = ("gb200", "gb300", "gh200")
"""Accelerators whose nodes have Grace, an Arm CPU (see the notes on their node types)."""
OTHER_NAMES = re.compile(r"(^|[-_/:.])(amd64|x86[-_]64|x86)([-_:.@]|$)")
"""An image name that states x86."""
FOR_ROOT = ("azurelustre.csi.azure.com",)
"""Drivers that leave new file systems owned by root."""


def no_identity(situation: Situation) -> Iterator[Checked]:
    """Report a bucket for which pods have no credentials."""
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
                f"pods have no service account, identity or keys for {address}: they can read the "
                "bucket only if the node can.",
                "Set cluster.service_account to an account that can read the bucket, or set "
                "cluster.identity to create such an account.",
                address,
            )
            return


def no_directory(situation: Situation) -> Iterator[Checked]:
    """Report checkpoints in an object store, which engines do not fully support."""
    location = situation.spec.checkpoints.location or ""
    if "://" not in location:
        return
    rule = (
        f"the engine writes files, so it would create a directory {location.split('/')[0]} in the "
        "container, which is lost when the pod is deleted."
    )
    if ENGINES[situation.spec.engine.name].saves_to_object_stores:
        rule = (
            f"Seatrial stores the record of each checkpoint on a volume: checkpoints in {location} "
            "would not be verified, and a restart could load an incomplete checkpoint."
        )
    own = f"{mount_of(situation)}/checkpoints/{situation.spec.name}"
    yield situation.error(
        CheckCode.NO_DIRECTORY,
        "checkpoints.location",
        rule,
        f"Use {own}. To copy checkpoints to a bucket, run seatrial checkpoints copy.",
        location,
        proposed(f"checkpoints.location={own}"),
    )


def not_writable(situation: Situation) -> Iterator[Checked]:
    """Report a new volume that belongs to root while processes run as a different user."""
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
            f"a new {situation.plan.machines.storage} volume belongs to root, but processes run as "
            f"user {user}: they cannot write to it.",
            "Use 0, or change the owner of the mounted directory once the volume exists.",
            user,
            proposed("cluster.run_as_user=0"),
        )


def local_server(situation: Situation) -> Iterator[Checked]:
    """Report a server at localhost, which is the pod itself."""
    mlflow = situation.spec.monitoring.mlflow
    if mlflow is not None and situation.in_pods and HERE.match(mlflow.tracking_uri):
        yield situation.error(
            CheckCode.LOCAL_SERVER,
            "monitoring.mlflow.tracking_uri",
            f"in a pod, {mlflow.tracking_uri} refers to the pod itself, where no server runs.",
            "Use an address at which pods can reach the server, such as "
            "http://mlflow.NAMESPACE.svc.cluster.local:5000.",
            mlflow.tracking_uri,
        )


def other_processor(situation: Situation) -> Iterator[Checked]:
    """Report an x86 image on nodes with Arm CPUs."""
    machines = situation.plan.machines
    if machines.accelerator in ARM and OTHER_NAMES.search(machines.image):
        yield situation.error(
            CheckCode.OTHER_PROCESSOR,
            "cluster.image",
            f"{machines.node_type} has Arm CPUs, but {machines.image} is an x86 image according "
            "to its name: no container would start.",
            "Use an arm64 image or a multi-platform image.",
            machines.image,
        )


def no_auto_resume(situation: Situation) -> Iterator[Checked]:
    """Report a namespace in which the cluster does not replace the faulty nodes of a job."""
    machines, namespace = situation.plan.machines, situation.spec.cluster.namespace
    profile = situation.catalog.profile(machines.profile)
    patterns = profile.auto_resume_namespaces
    if machines.operator is not Operator.PYTORCHJOB or not (profile.auto_resume and patterns):
        return
    if not any(fnmatchcase(namespace, pattern) for pattern in patterns):
        yield situation.warning(
            CheckCode.NO_AUTO_RESUME,
            "cluster.namespace",
            f"{profile.title} replaces faulty nodes of a PyTorchJob only in the namespaces "
            f"{' and '.join(patterns)}: in {namespace}, a node failure stops the run.",
            f"Use such a namespace, for example hyperpod-{namespace}, or HyperPod's own operator: "
            "cluster.operator=hyperpod-pytorchjob.",
            namespace,
        )


RULES = (
    static(CheckCode.NO_AUTO_RESUME, look=no_auto_resume),
    static(CheckCode.NO_IDENTITY, look=no_identity),
    static(CheckCode.NO_DIRECTORY, look=no_directory),
    static(CheckCode.NOT_WRITABLE, look=not_writable),
    static(CheckCode.LOCAL_SERVER, look=local_server),
    static(CheckCode.OTHER_PROCESSOR, look=other_processor),
)
