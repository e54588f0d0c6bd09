# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Components that an administrator installs in a cluster before the first run."""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, model_validator

from seatrial.catalog.entry import Entry, Facts, Kind, Reference
from seatrial.spec.base import broken
from seatrial.spec.cluster import Operator

Version = tuple[int, ...]
"""A version as numbers: `2.7.0a0` is (2, 7, 0)."""
VersionText = Annotated[str, Field(pattern=r"^(v?\d+(\.\d+)*([-+][0-9A-Za-z.-]+)?)?$")]
"""A version; empty for no limit."""


def version(text: str) -> Version:
    """Parse the numbers at the start of a version, such as v2.7.0-rc1."""
    match = re.match(r"v?(\d+(?:\.\d+)*)", text)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


class ComponentRole(StrEnum):
    """What a component does for a run, in the order of installation.

    A cluster has one component for each role.
    """

    PLATFORM = "platform"
    """What a platform itself requires, such as HyperPod's own chart."""
    CERTIFICATES = "certificates"
    """Issues the certificates that an operator's webhooks need."""
    METRICS = "metrics"
    """Collects the metrics of runs."""
    FABRIC = "fabric"
    """The plugin through which pods request the devices of the fabric, or its libraries."""
    FABRIC_SETTINGS = "fabric-settings"
    """The settings of that plugin: which adapters it offers."""
    GPU = "gpu"
    """Drivers, and the plugin through which pods request GPUs."""
    GPU_METRICS = "gpu-metrics"
    """Exports the metrics of GPUs."""
    OPERATOR = "operator"
    """Creates the pods of a run."""
    JOBS = "jobs"
    """The job controller that an operator is built on."""
    QUEUE = "queue"
    """Admits runs by quota, all pods together."""
    STORAGE = "storage"
    """The CSI driver of the shared volume."""


class VersionRange(Facts):
    """Versions from the first, up to but not including the second."""

    since: VersionText = ""
    """The first version; empty for all older ones too."""
    below: VersionText = ""
    """The first version that is not in the range; empty for all newer ones too."""

    def contains(self, text: str) -> bool:
        """True if a version is in the range. A version without numbers is in none."""
        number = version(text)
        if not number:
            return False
        newer = not self.since or number >= version(self.since)
        return newer and (not self.below or number < version(self.below))

    def __str__(self) -> str:
        """Format the range for a message, such as `0.17 or newer`."""
        if self.since and self.below:
            return f"{self.since} to below {self.below}"
        if self.since:
            return f"{self.since} or newer"
        return f"older than {self.below}" if self.below else "any version"


class Conflict(Facts):
    """Versions of two components that are known not to work together."""

    versions: VersionRange
    """Versions of this component."""
    other: str
    """The other component."""
    other_versions: VersionRange
    """Versions of the other component."""
    reason: str
    """What goes wrong."""
    by_default: bool = False
    """True if the default settings cause it, so that a cluster may have been set up without it."""
    source: str = Field(min_length=8)
    """Where this is reported."""


class ClusterComponent(Entry):
    """One component, and how it is installed: a chart, manifests, or a setting of the cloud."""

    role: ComponentRole
    """What it does. If several components have a role, the first that fits the cluster is used."""
    versions: tuple[Annotated[str, Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+-]*$")], ...] = ()
    """Releases to install, the preferred one first; empty if the cloud chooses."""
    works: VersionRange = VersionRange()
    """Versions that are known to work."""
    repository: str = ""
    """Helm repository (`https://`, `oci://`), or a git repository that contains `path`."""
    chart: str = ""
    """Name of the chart in the Helm repository."""
    path: str = ""
    """Directory of the chart in the git repository."""
    manifests: tuple[str, ...] = ()
    """Instead of a chart: directories with a kustomization, and files, in the git repository."""
    tag: str = Field(default="{version}", pattern=r"^[^\s]*$")
    """The git tag of a release; `{version}` stands for the version."""
    managed: str = ""
    """Instead of a chart: how to enable the component in the cloud that operates it."""
    namespace: str = ""
    """Namespace of the release."""
    pod_security: str = Field(default="", pattern=r"^(privileged|baseline|restricted)?$")
    """Pod Security level that the namespace must allow; empty if it needs no label."""
    values: dict[str, Any] = {}
    """Values of the chart."""
    values_with: dict[str, dict[str, Any]] = {}
    """More values, for each other component that is installed too."""
    brings: tuple[str, ...] = ()
    """Components that it installs itself."""
    clouds: tuple[str, ...] = ()
    """Clouds that it is for; empty for all."""
    profiles: tuple[str, ...] = ()
    """Profiles that it is for; empty for all."""
    operators: tuple[Operator, ...] = ()
    """Operators of runs that need it; empty for all."""
    devices: tuple[str, ...] = ()
    """Resource names of the fabric devices that it provides."""
    fabrics: tuple[str, ...] = ()
    """Fabrics that it is for, if pods request no devices."""
    csi_driver: str = ""
    """Name of the CSI driver that it provides."""
    images: dict[str, tuple[str, ...]] = {}
    """Images that it pulls, by version, or for `any`; `{version}` stands for the version. Empty if
    no source lists them."""
    definition: str = ""
    """Custom resource by which an installed component is recognised."""
    workloads: tuple[str, ...] = ()
    """Parts of the names of its Deployments or DaemonSets; the image tag states the version."""
    conflicts: tuple[Conflict, ...] = ()
    """Combinations with other components that are known not to work."""

    @model_validator(mode="after")
    def _one_way_to_install(self) -> "ClusterComponent":
        ways = [bool(self.chart or self.path), bool(self.manifests), bool(self.managed)]
        if sum(ways) != 1:
            raise broken(
                "a component is installed in exactly one way.",
                "Set chart (or path), manifests, or managed.",
            )
        if not self.managed and not (self.repository and self.versions):
            raise broken(
                "a component that is not managed needs a repository and versions.",
                "Add repository and versions.",
            )
        return self

    def named_entries(self) -> Iterable[Reference]:
        for name in self.brings:
            yield ("brings",), Kind.COMPONENTS, name
        for name in self.values_with:
            yield ("values_with", name), Kind.COMPONENTS, name
        for number, conflict in enumerate(self.conflicts):
            yield ("conflicts", number, "other"), Kind.COMPONENTS, conflict.other
        for name in self.fabrics:
            yield ("fabrics",), Kind.FABRICS, name
        for name in self.profiles:
            yield ("profiles",), Kind.PROFILES, name
