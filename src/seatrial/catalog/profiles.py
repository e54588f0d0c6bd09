# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Cluster profiles: the node types, fabric, storage and images of one kind of cluster."""

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import model_validator

from seatrial.catalog.entry import Entry, Facts, Kind, Reference
from seatrial.catalog.node_types import Cloud
from seatrial.spec.cluster import Operator


class Toleration(Facts):
    """A toleration for a taint on the GPU nodes."""

    key: str
    """Key of the taint."""
    operator: Literal["Exists", "Equal"] = "Exists"
    """How the value is compared."""
    value: str = ""
    """Value of the taint, for `Equal`."""
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule", ""] = "NoSchedule"
    """Effect of the taint."""


class Profile(Entry):
    """One kind of cluster."""

    cloud: Cloud
    """Cloud provider."""
    operators: tuple[Operator, ...]
    """Supported launchers; the first is the default."""
    default_node_type: str
    """Node type that `seatrial init` proposes."""
    node_types: tuple[str, ...]
    """Node types that such a cluster can have, including those in `extra_node_types`."""
    extra_node_types: tuple[str, ...] = ()
    """Node types that your own catalog adds to the node types of a shipped profile."""
    default_storage: str
    """Storage tier that `seatrial init` proposes."""
    storage: tuple[str, ...]
    """Storage tiers that such a cluster can mount."""
    images: dict[str, str]
    """Default image by engine, used if `cluster.image` is not set; also of `data` and
    `tensorboard`."""
    gpu_resource: str
    """Kubernetes resource name of a GPU; empty without Kubernetes."""
    node_type_label: str
    """Node label that contains the node type; empty without Kubernetes."""
    node_labels: dict[str, str] = {}
    """Other labels, with values, that a node must have to run the pods."""
    tolerations: tuple[Toleration, ...] = ()
    """Tolerations of the pods, for taints on GPU nodes."""
    cpu_node_labels: dict[str, str] = {}
    """Labels, with values, of the nodes for pods without GPUs, such as TensorBoard's."""
    cpu_tolerations: tuple[Toleration, ...] = ()
    """Tolerations of these pods, for taints on nodes without GPUs."""
    network_interface: str = ""
    """Value of NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME; empty leaves the choice to NCCL."""
    auto_resume: bool = False
    """True if the cluster replaces faulty nodes of a PyTorchJob with the right annotation."""
    auto_resume_namespaces: tuple[str, ...] = ()
    """Namespaces in which the cluster replaces nodes; `*` matches any text. If empty, all."""
    zone_label: str = "topology.kubernetes.io/zone"
    """Node label that contains the failure domain."""

    @model_validator(mode="before")
    @classmethod
    def _with_extra_node_types(cls, given: Any) -> Any:
        """Add the extra node types to `node_types`; non-list values are rejected later."""
        if not isinstance(given, dict):
            return given
        listed, extra = given.get("node_types"), given.get("extra_node_types")
        if not isinstance(listed, list) or not isinstance(extra, list):
            return given
        return given | {"node_types": [*listed, *(name for name in extra if name not in listed)]}

    def named_entries(self) -> Iterable[Reference]:
        yield ("default_node_type",), Kind.NODE_TYPES, self.default_node_type
        yield ("default_storage",), Kind.STORAGE, self.default_storage
        for name in self.node_types:
            yield ("node_types",), Kind.NODE_TYPES, name
        for name in self.storage:
            yield ("storage",), Kind.STORAGE, name
        for engine, name in self.images.items():
            yield ("images", engine), Kind.IMAGES, name
