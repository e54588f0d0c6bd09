# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The cluster section: the nodes, and the Kubernetes settings of the pods."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from seatrial.codes.spec import SpecCode
from seatrial.naming import names_namespace, names_object
from seatrial.secrets.names import names_secret
from seatrial.spec.base import DEFAULTS, SpecModel, added_later, broken
from seatrial.spec.pods import (
    CpuNodes,
    ExtraResource,
    FreeKey,
    Key,
    LabelValue,
    ScratchSpec,
    TolerationSpec,
)
from seatrial.spec.scalars import ByteSize, Flag, PositiveFloat, PositiveInt
from seatrial.spec.secrets import shown

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _variable_name(name: str) -> str:
    """Check the name of an environment variable."""
    if not _VARIABLE.fullmatch(name):
        raise broken(
            f"{shown(name)} is not a valid variable name.",
            "Use letters, digits and _, and do not start with a digit.",
            SpecCode.TYPE,
        )
    return name


def _public_variable(name: str) -> str:
    """Check that an environment variable is not a secret, whose value must not be in a spec."""
    if names_secret(name):
        raise broken(
            f"{name} is a secret, but a spec must not contain the value of a secret.",
            f"Remove it, and add {{secret: NAME, key: KEY, env: {name}}} to cluster.secrets.",
            SpecCode.SECRET,
        )
    return name


def _object_name(name: str) -> str:
    """Check the name of an existing Kubernetes object."""
    if not names_object(name):
        raise broken(
            f"{shown(name)} is not a valid Kubernetes name.",
            "Use lowercase letters, digits, hyphens and dots, with a letter or digit at each end.",
        )
    return name


VariableName = Annotated[str, AfterValidator(_variable_name)]
Variable = Annotated[VariableName, AfterValidator(_public_variable)]
MountOption = Annotated[str, Field(pattern=r"^(-o )?[^\s,]+$")]
"""An option of mount, or of a FUSE driver in its form `-o NAME`."""
ObjectName = Annotated[str, AfterValidator(_object_name)]


class Operator(StrEnum):
    """The launcher that starts the processes of a run."""

    AUTO = "auto"
    """The profile's default."""
    PYTORCHJOB = "pytorchjob"
    """Kubeflow Training Operator v1."""
    TRAINJOB = "trainjob"
    """Kubeflow Trainer v2."""
    HYPERPOD = "hyperpod-pytorchjob"
    """Amazon SageMaker HyperPod training operator."""
    TORCHRUN = "torchrun"
    """torchrun on this host, without Kubernetes."""


NO_GPUS = "none"
"""The `accelerator` of a run that trains on CPUs although the host may have GPUs."""


class Container(StrEnum):
    """The container runtime of a run on this host."""

    DOCKER = "docker"
    """Docker Engine, with the NVIDIA Container Toolkit for GPUs."""
    PODMAN = "podman"
    """Podman, with the NVIDIA Container Toolkit's CDI specification for GPUs."""
    APPTAINER = "apptainer"
    """Apptainer, which has built-in support for NVIDIA GPUs."""


class Gang(StrEnum):
    """Gang scheduling: start all pods of a run together, or none of them."""

    AUTO = "auto"
    """Kueue if `queue` is set. Otherwise `launch` uses what the cluster offers: Kueue if the
    namespace has exactly one local queue, else coscheduling, else Volcano, else none."""
    NONE = "none"
    """No gang scheduling: pods start one by one, as nodes become free."""
    COSCHEDULING = "coscheduling"
    """The coscheduling plugin of Kubernetes' scheduler-plugins."""
    VOLCANO = "volcano"
    """The Volcano scheduler."""


class TopologySpec(SpecModel):
    """How close to each other Kueue places the pods of the run."""

    level: str = Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$")
    """Node label of the topology domain, such as a rack or block, that should contain all pods."""
    required: Flag = False
    """True to wait until one domain has room for all pods, instead of spreading over several."""


class ReclaimPolicy(StrEnum):
    """What happens to a volume when its claim is deleted."""

    RETAIN = "Retain"
    """The volume and its files stay."""
    DELETE = "Delete"
    """The driver deletes the volume with all checkpoints."""


class VolumeSpec(SpecModel):
    """An existing file system or bucket that has no persistent volume claim yet."""

    handle: str = Field(pattern=r"^[^\s]+$")
    """ID of the volume in the storage driver, such as `fs-0123456789abcdef0`."""
    attributes: Mapping[str, str] = {}
    """Other attributes that the driver needs, such as `dnsname` and `mountname`, as strings."""


class StorageSpec(SpecModel):
    """The shared volume of the run: an existing PVC, or a new volume in a storage tier."""

    claim: ObjectName | None = None
    """Name of an existing persistent volume claim (PVC)."""
    tier: str | None = None
    """Storage tier of a new volume, from the catalog; defaults to the profile's."""
    capacity: ByteSize | None = None
    """Size of a new volume with its unit, such as `16Ti`; defaults to what the run needs."""
    volume: VolumeSpec | None = None
    """Existing file system or bucket in the tier; if not set, a new volume is created."""
    parameters: Mapping[str, str] = {}
    """Storage class parameters that are specific to this cluster, such as `subnetId`."""
    mount: str = Field(default="/data", pattern=r"^/[^\s:]*$")
    """Absolute path where pods mount the volume; on a single host, the directory for runs."""

    mount_options: tuple[MountOption, ...] | None = added_later()
    """Mount options of the volume or storage class that you create; defaults to the tier's."""
    reclaim_policy: ReclaimPolicy | None = added_later()
    """Whether that volume stays when its claim is deleted; defaults to `Retain`."""

    write_gb_s: PositiveFloat | None = added_later()
    """Measured write throughput of the volume for all nodes together, GB/s; default: the tier's."""

    @field_validator("mount", mode="before")
    @classmethod
    def _from_the_root(cls, mount: object) -> object:
        if isinstance(mount, str) and not mount.startswith("/"):
            raise broken(
                f"{shown(mount)} is not an absolute path, but each process has its own working "
                "directory.",
                f"Use an absolute path, such as $PWD/{mount.removeprefix('./')} in a shell.",
                SpecCode.TYPE,
            )
        if isinstance(mount, str) and {".", ".."} & set(mount.split("/")):
            rule = f"{shown(mount)} contains . or .., so paths below it would be ambiguous."
            raise broken(rule, "Write the path without these parts.", SpecCode.TYPE)
        if isinstance(mount, str) and not mount.strip("/"):
            rule = "a volume mounted at / would hide the files in the image."
            raise broken(rule, "Use a directory, such as /data.", SpecCode.TYPE)
        return mount

    @field_validator("tier", "capacity", "volume", "mount_options", "reclaim_policy")
    @classmethod
    def _claim_or_new_volume(cls, value: object, info: ValidationInfo) -> object:
        name = str(info.field_name)
        if value is not None and info.data.get("claim") is not None:
            what = name.replace("_", " ")
            article = "" if what.endswith("s") else "a "
            raise broken(
                f"an existing PVC already has {article}{what}.", f"Keep claim or {name}, not both."
            )
        return value

    @field_validator("parameters")
    @classmethod
    def _for_new_volumes_only(
        cls, parameters: Mapping[str, str], info: ValidationInfo
    ) -> Mapping[str, str]:
        for name in ("claim", "volume"):
            if parameters and info.data.get(name) is not None:
                raise broken(
                    f"parameters apply to a new volume, but {name} names an existing one.",
                    f"Keep {name} or parameters, not both.",
                )
        return parameters


class PreparationPods(SpecModel):
    """The pods that prepare data in the cluster; they do not need GPUs."""

    pods: Annotated[int, Field(strict=True, gt=0, le=10_000)] = 4
    """Number of pods that run at the same time."""
    cpus: Annotated[int, Field(strict=True, gt=0, le=1_000)] = 8
    """Number of CPUs per pod."""
    memory: ByteSize = 32 << 30
    """Memory per pod with its unit, such as `32Gi`."""
    image: str | None = Field(default=None, pattern=r"^[^\s]+$")
    """Container image, or the name of an image in the catalog; defaults to the profile's."""


class SecretRef(SpecModel):
    """A reference to a Kubernetes secret; its value is never in a spec."""

    secret: ObjectName
    """Name of the Kubernetes secret."""
    key: str | None = Field(default=None, pattern=r"^[-._a-zA-Z0-9]+$")
    """Key inside the secret (letters, digits, `-`, `_`, `.`); required with `env`."""
    env: VariableName | None = None
    """Environment variable to set to the value of the key."""
    mount: str | None = Field(default=None, validate_default=True, pattern=r"^/[^\s:]*$")
    """Directory where the secret's keys are mounted as files, such as `/etc/tokens`."""

    @field_validator("mount")
    @classmethod
    def _one_way_in(cls, mount: str | None, info: ValidationInfo) -> str | None:
        if "env" not in info.data or "key" not in info.data:
            return mount
        env = info.data["env"]
        if (env is None) == (mount is None):
            raise broken(
                "a secret is either an environment variable (env) or files (mount).",
                "Set exactly one of env and mount.",
                absent=() if mount else ("env", "mount"),
            )
        if env is not None and info.data["key"] is None:
            raise broken(
                f"the key of the secret to store in {shown(env)} is not set.",
                "Add key: NAME_OF_THE_KEY.",
                absent=("key",),
            )
        return mount


class ClusterSpec(SpecModel):
    """The cluster that the run uses."""

    profile: str
    """Kind of cluster, from the catalog; see `seatrial catalog list profiles`."""
    node_type: str | None = None
    """Node type from the catalog; defaults to the profile's."""
    nodes: Annotated[int, Field(strict=True, gt=0, le=1_000_000)] = 1
    """Number of nodes."""
    processes_per_node: Annotated[int, Field(strict=True, gt=0, le=1_000)] | None = None
    """Processes per node, one per GPU; defaults to the number of GPUs on the node."""
    accelerator: str | None = added_later()
    """GPU on this host, from the catalog (profile `local`); defaults to the detected one."""
    container: Container | None = added_later()
    """Container runtime on this host, with the profile `local`; if not set, none is used."""
    operator: Operator = Operator.AUTO
    """Launcher of the processes: a Kubernetes operator, or `torchrun` on this host."""
    operator_version: str | None = Field(default=None, pattern=r"^[0-9]+\.[0-9]+(\.[0-9]+)?$")
    """Version of the operator in the cluster, such as `2.1`; defaults to the newest known."""
    namespace: str = "default"
    """Kubernetes namespace in which the run is created."""
    queue: str | None = None
    """Kueue local queue that admits the run; if not set, Kueue is not used."""
    topology: TopologySpec | None = None
    """How close to each other Kueue places the pods; if not set, there is no constraint."""
    gang: Gang = Gang.AUTO
    """Gang scheduler that starts all pods together, or none of them."""
    priority_class: ObjectName | None = None
    """Kubernetes priority class of the pods; defaults to the cluster's."""
    node_selector: Mapping[Key, LabelValue] = added_later({})
    """Labels, with values, that the training nodes must have, in addition to the profile's."""
    tolerations: tuple[TolerationSpec, ...] = added_later(())
    """Tolerations of the training pods for taints on nodes, in addition to the profile's."""
    cpu_nodes: CpuNodes | None = added_later()
    """The nodes for pods without GPUs; if not set, the profile selects them."""
    resources: Mapping[ExtraResource, PositiveInt] = added_later({})
    """Extra resources per training pod, such as `rdma/hca: 8`, which replaces the fabric's own."""
    shm: ByteSize | None = added_later()
    """Size of `/dev/shm` for training, with its unit; defaults to 8 GiB per process."""
    scratch: ScratchSpec | None = added_later()
    """Local disk of the training pods; defaults to 50 GiB of the node's ephemeral storage."""
    labels: Mapping[FreeKey, LabelValue] = added_later({})
    """Extra labels of all objects and pods of the run, such as a team's."""
    annotations: Mapping[FreeKey, str] = added_later({})
    """Extra annotations of all objects and pods of the run."""
    fabric: str | None = None
    """Network between nodes; `none` for plain TCP; defaults to the node type's."""
    storage: StorageSpec = DEFAULTS
    """The shared volume of the run."""
    image: str | None = Field(default=None, pattern=r"^[^\s]+$")
    """Container image, or the name of an image in the catalog; defaults to the profile's."""
    image_pull_secret: ObjectName | None = None
    """Kubernetes secret with the registry credentials to pull the image."""
    env: Mapping[Variable, str] = {}
    """Extra environment variables; values are strings, so put numbers in quotes."""
    service_account: ObjectName | None = None
    """Existing Kubernetes service account, for keyless access to buckets."""
    identity: str | None = Field(default=None, pattern=r"^[^\s]+$")
    """Cloud identity of a new service account: role ARN, Azure client ID, or Google account."""
    secrets: tuple[SecretRef, ...] = ()
    """References to Kubernetes secrets to set or mount in the pods."""
    run_as_user: Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)] | None = None
    """User ID of the processes; defaults to 0 (root) on a fabric with RDMA, otherwise to 1000."""
    restarts: Annotated[int, Field(strict=True, ge=0, le=1_000)] = 10
    """Maximum consecutive restarts without progress; progress resets the counter."""
    failures_per_gpu_year: Annotated[float, Field(gt=0, le=1_000)] | None = None
    """Expected unplanned interruptions per GPU and year; defaults to the rate of Llama 3's run."""
    preflight: Flag = True
    """True to check each node before training starts on it."""
    preparation: PreparationPods = DEFAULTS
    """The pods that prepare data."""

    @field_validator("identity")
    @classmethod
    def _one_account(cls, identity: str | None, info: ValidationInfo) -> str | None:
        if identity is not None and info.data.get("service_account") is not None:
            raise broken(
                "an existing service account already has an identity.",
                "Keep service_account or identity, not both.",
            )
        return identity

    @field_validator("topology")
    @classmethod
    def _topology_needs_queue(cls, topology: object, info: ValidationInfo) -> object:
        if topology is not None and info.data.get("queue", "") is None:
            raise broken(
                "Kueue places pods by topology, but it ignores a run without a queue.",
                "Add queue: NAME, or remove topology.",
            )
        return topology

    @field_validator("gang")
    @classmethod
    def _one_gang(cls, gang: Gang, info: ValidationInfo) -> Gang:
        if gang in (Gang.COSCHEDULING, Gang.VOLCANO) and info.data.get("queue") is not None:
            raise broken(
                f"Kueue already admits all pods together, so {gang} is not needed.",
                "Keep queue or gang, not both.",
            )
        return gang

    @field_validator("namespace")
    @classmethod
    def _namespace_name(cls, name: str) -> str:
        if not names_namespace(name):
            raise broken(
                f"{shown(name)} is not a valid Kubernetes name.",
                "Use at most 63 lowercase letters, digits and hyphens, with no hyphen at either "
                "end.",
            )
        return name

    @field_validator("queue")
    @classmethod
    def _queue_name(cls, name: str | None) -> str | None:
        # Kueue reads the queue from a label, whose value can have at most 63 characters.
        if name is not None and not names_object(name, 63):
            raise broken(
                f"{shown(name)} is not a valid Kueue queue name.",
                "Use at most 63 lowercase letters, digits, hyphens and dots.",
            )
        return name
