# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Settings of pods that differ between clusters: nodes, labels, resources and local disk."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from seatrial.codes.spec import SpecCode
from seatrial.naming import names_object
from seatrial.spec.base import SpecModel, broken
from seatrial.spec.scalars import ByteSize
from seatrial.spec.secrets import shown

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_LONGEST = 63
_OURS = tuple(
    f"app.kubernetes.io/{name}" for name in ("name", "instance", "managed-by", "component")
)
_SET_BY = {
    "seatrial.dev": "Seatrial",
    "kueue.x-k8s.io": "Kueue",
    "training.kubeflow.org": "the operator",
    "trainer.kubeflow.org": "the operator",
    "jobset.sigs.k8s.io": "the operator",
    "batch.kubernetes.io": "Kubernetes",
    "ray.io": "KubeRay",
}
"""Prefixes of keys with a fixed meaning, and the component that sets them."""


def _is_name(text: str) -> bool:
    return len(text) <= _LONGEST and _NAME.fullmatch(text) is not None


def _key(key: str) -> str:
    """Check the key of a label, an annotation or a taint."""
    prefix, slash, name = key.rpartition("/")
    if not _is_name(name) or (slash and not names_object(prefix)):
        raise broken(
            f"{shown(key)} is not a valid key in Kubernetes.",
            "Use a name of at most 63 letters, digits, hyphens, underscores and dots, with an "
            "optional domain and slash in front of it, such as example.com/team.",
            SpecCode.TYPE,
        )
    return key


def _label_value(value: str) -> str:
    if value and not _is_name(value):
        raise broken(
            f"{shown(value)} is not a valid label value.",
            "Use at most 63 letters, digits, hyphens, underscores and dots, with a letter or digit "
            "at each end.",
            SpecCode.TYPE,
        )
    return value


def _free_key(key: str) -> str:
    """Check that no other component sets the label or annotation."""
    setter = "Seatrial" if key in _OURS else _SET_BY.get(key.rpartition("/")[0])
    if setter:
        fix = "Use a key with your own domain, such as example.com/team."
        if key == "kueue.x-k8s.io/queue-name":
            fix = "Remove the line, and set cluster.queue."
        raise broken(f"{key} is set by {setter}; a different value would break the run.", fix)
    return key


def _extra_resource(name: str) -> str:
    """Check that a resource is an extended resource that the plan does not request itself."""
    if "/" not in name or name == "nvidia.com/gpu":
        raise broken(
            f"Seatrial computes the request for {shown(name)} from the node type."
            if name in ("cpu", "memory", "ephemeral-storage", "nvidia.com/gpu")
            else f"{shown(name)} is not the name of an extended resource.",
            "Use the name of a device plugin's resource, such as rdma/hca_shared_devices_a.",
        )
    return _key(name)


Key = Annotated[str, AfterValidator(_key)]
LabelValue = Annotated[str, AfterValidator(_label_value)]
FreeKey = Annotated[Key, AfterValidator(_free_key)]
ExtraResource = Annotated[str, AfterValidator(_extra_resource)]


class TolerationSpec(SpecModel):
    """A toleration for a taint on nodes, as in Kubernetes."""

    key: Key
    """Key of the taint."""
    value: LabelValue | None = None
    """Value of the taint; if not set, the toleration matches any value."""
    operator: Literal["Exists", "Equal"] | None = None
    """How the value is compared; defaults to `Equal` with a value, otherwise to `Exists`."""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] | None = None
    """Effect of the taint; if not set, the toleration matches every effect."""

    @field_validator("operator")
    @classmethod
    def _value_or_exists(cls, operator: str | None, info: ValidationInfo) -> str | None:
        if operator == "Exists" and info.data.get("value"):
            raise broken("Exists matches any value.", "Keep value or operator: Exists, not both.")
        return operator

    @property
    def comparison(self) -> Literal["Exists", "Equal"]:
        """The operator, also if it is not set."""
        return self.operator or ("Exists" if self.value is None else "Equal")


class ScratchSpec(SpecModel):
    """The local disk of training pods, mounted at `/scratch` for caches and temporary files."""

    size: ByteSize | None = None
    """Size with its unit, such as `500Gi`; defaults to 50 GiB."""
    host_path: str | None = Field(default=None, pattern=r"^/[^\s:]+$")
    """Directory on the nodes, such as `/mnt/nvme`, which must exist and be writable."""
    storage_class: str | None = None
    """Storage class of a new volume for each pod, which is deleted with the pod."""

    @field_validator("host_path")
    @classmethod
    def _size_or_directory(cls, path: str | None, info: ValidationInfo) -> str | None:
        if path is not None and {".", ".."} & set(path.split("/")):
            rule = f"{shown(path)} contains . or .., which Kubernetes rejects."
            raise broken(rule, "Write the path without these parts.", SpecCode.TYPE)
        if path is not None and info.data.get("size") is not None:
            raise broken(
                "Kubernetes does not limit the size of a host directory.",
                "Keep host_path or size, not both.",
            )
        return path

    @field_validator("storage_class")
    @classmethod
    def _directory_or_class(cls, name: str | None, info: ValidationInfo) -> str | None:
        if name is not None and not names_object(name):
            raise broken(
                f"{shown(name)} is not a valid Kubernetes name.",
                "Use lowercase letters, digits, hyphens and dots, with a letter or digit at each "
                "end.",
            )
        if name is not None and info.data.get("host_path") is not None:
            raise broken(
                "a host directory needs no storage class.",
                "Keep host_path or storage_class, not both.",
            )
        return name


class CpuNodes(SpecModel):
    """The nodes for pods without GPUs: data preparation and TensorBoard."""

    node_selector: Mapping[Key, LabelValue] = {}
    """Labels, with values, that these nodes must have, in addition to the profile's."""
    tolerations: tuple[TolerationSpec, ...] = ()
    """Tolerations of these pods, in addition to the profile's."""
