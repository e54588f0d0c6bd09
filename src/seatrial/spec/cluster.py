# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The cluster section: which machines, and what pods need around the training itself."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from seatrial.naming import names_namespace, names_object
from seatrial.spec.base import DEFAULTS, SpecModel, broken
from seatrial.spec.codes import SpecCode
from seatrial.spec.scalars import ByteSize
from seatrial.spec.secrets import names_secret, shown

_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")


def _variable_name(name: str) -> str:
    """The name of an environment variable."""
    if not _VARIABLE.match(name):
        raise broken(
            f"{shown(name)} is not a variable's name.",
            "Use letters, digits and _, with no digit first.",
            SpecCode.TYPE,
        )
    return name


def _public_variable(name: str) -> str:
    """The name of an environment variable that may stand in a spec with its value."""
    if names_secret(name):
        raise broken(
            f"{name} is a secret, and a spec never holds a secret's value.",
            f"Remove it and add to cluster.secrets: {{secret: NAME, key: KEY, env: {name}}}.",
            SpecCode.SECRET,
        )
    return name


def _object_name(name: str) -> str:
    """The name of a Kubernetes object that exists already."""
    if not names_object(name):
        raise broken(
            f"{shown(name)} is not a name that Kubernetes accepts.",
            "Use lower-case letters, digits, hyphens and dots, a letter or digit first and last.",
        )
    return name


VariableName = Annotated[str, AfterValidator(_variable_name)]
Variable = Annotated[VariableName, AfterValidator(_public_variable)]
ObjectName = Annotated[str, AfterValidator(_object_name)]


class Operator(StrEnum):
    """What starts the processes of a run."""

    AUTO = "auto"
    """The profile's default."""
    PYTORCHJOB = "pytorchjob"
    """Kubeflow Training Operator v1."""
    TRAINJOB = "trainjob"
    """Kubeflow Trainer v2."""
    HYPERPOD = "hyperpod-pytorchjob"
    """Amazon SageMaker HyperPod training operator."""
    TORCHRUN = "torchrun"
    """No Kubernetes: torchrun on this host."""


class StorageSpec(SpecModel):
    """The shared volume of the run: an existing claim, or a new volume of a tier."""

    claim: ObjectName | None = None
    """Name of an existing persistent volume claim."""
    tier: str | None = None
    """Storage tier of the catalog for a new volume; the profile's default when absent."""
    capacity: ByteSize | None = None
    """Size of a new volume with its unit, such as `16Ti`; what the run needs when absent."""
    mount: str = Field(default="/data", pattern=r"^/[^\s:]*$")
    """Where pods mount it, as a path from the root, such as `/data`."""

    @field_validator("tier")
    @classmethod
    def _claim_or_tier(cls, tier: str | None, info: ValidationInfo) -> str | None:
        if tier is not None and info.data.get("claim") is not None:
            raise broken("an existing claim has its tier already.", "Keep claim or tier, not both.")
        return tier

    @field_validator("capacity")
    @classmethod
    def _claim_or_capacity(cls, capacity: int | None, info: ValidationInfo) -> int | None:
        if capacity is not None and info.data.get("claim") is not None:
            raise broken(
                "an existing claim has its capacity already.", "Keep claim or capacity, not both."
            )
        return capacity


class SecretRef(SpecModel):
    """A Kubernetes secret by name; its value never stands in a spec."""

    secret: ObjectName
    """Name of the Kubernetes secret."""
    key: str | None = Field(default=None, pattern=r"^[-._a-zA-Z0-9]+$")
    """Key inside the secret: letters, digits, `-`, `_`, `.`; needed with `env`."""
    env: VariableName | None = None
    """Environment variable that receives the key's value."""
    mount: str | None = Field(default=None, validate_default=True, pattern=r"^/[^\s:]*$")
    """Directory in which the secret's keys appear as files, such as `/etc/tokens`."""

    @field_validator("mount")
    @classmethod
    def _one_way_in(cls, mount: str | None, info: ValidationInfo) -> str | None:
        if "env" not in info.data or "key" not in info.data:
            return mount
        env = info.data["env"]
        if (env is None) == (mount is None):
            raise broken(
                "a secret is either an environment variable (env) or files (mount).",
                "Give exactly one of env and mount.",
                absent=() if mount else ("env", "mount"),
            )
        if env is not None and info.data["key"] is None:
            raise broken(
                f"{shown(env)} needs to know which key of the secret it receives.",
                "Add key: NAME_OF_THE_KEY.",
                absent=("key",),
            )
        return mount


class ClusterSpec(SpecModel):
    """Where the run goes."""

    profile: str
    """Kind of cluster; see `seatrial catalog list profiles`."""
    node_type: str | None = None
    """Machine type; the profile's default when absent."""
    nodes: Annotated[int, Field(strict=True, gt=0, le=1_000_000)] = 1
    """Machines of the run."""
    processes_per_node: Annotated[int, Field(strict=True, gt=0, le=1_000)] | None = None
    """Processes on each machine, one per GPU; all its GPUs when absent."""
    operator: Operator = Operator.AUTO
    """What starts the processes."""
    namespace: str = "default"
    """Kubernetes namespace of the run."""
    queue: str | None = None
    """Kueue local queue that admits the run; none when absent."""
    fabric: str | None = None
    """Network between nodes; the node type's own when absent, `none` for plain TCP."""
    storage: StorageSpec = DEFAULTS
    """The shared volume of the run."""
    image: str | None = Field(default=None, pattern=r"^[^\s]+$")
    """Container image, or the name of one in the catalog; the profile's own when absent."""
    image_pull_secret: ObjectName | None = None
    """Kubernetes secret that lets nodes pull the image; none when absent."""
    env: Mapping[Variable, str] = {}
    """Extra environment variables; values are text, so numbers are quoted."""
    service_account: ObjectName | None = None
    """Kubernetes service account, for access to buckets without keys."""
    secrets: tuple[SecretRef, ...] = ()
    """Secrets that pods receive, by reference."""

    @field_validator("namespace")
    @classmethod
    def _namespace_name(cls, name: str) -> str:
        if not names_namespace(name):
            raise broken(
                f"{shown(name)} is not a name that Kubernetes accepts.",
                "Use lower-case letters, digits and hyphens, at most 63, no hyphen first or last.",
            )
        return name

    @field_validator("queue")
    @classmethod
    def _queue_name(cls, name: str | None) -> str | None:
        # Kueue reads the queue from a label, and a label's value ends at 63 characters.
        if name is not None and not names_object(name, 63):
            raise broken(
                f"{shown(name)} is not a name that Kueue accepts.",
                "Use lower-case letters, digits, hyphens and dots, at most 63.",
            )
        return name
