# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The rendering context: a plan with the catalog facts that manifests need."""

from collections.abc import Mapping
from dataclasses import dataclass

from seatrial.catalog.accelerators import Accelerator
from seatrial.catalog.catalog import Catalog
from seatrial.catalog.fabrics import Fabric
from seatrial.catalog.node_types import NodeType
from seatrial.catalog.profiles import Profile
from seatrial.catalog.storage import StorageTier
from seatrial.errors import NotInCatalogError
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt, GangScheduler
from seatrial.spec.cluster import Gang

DATA = "data"
"""The key of the data preparation image among a profile's images."""
TENSORBOARD = "tensorboard"
"""The key of TensorBoard's image among a profile's images."""


@dataclass(frozen=True, slots=True)
class PodImage:
    """A container image as referenced in pods."""

    reference: str
    """Repository with the digest if known, otherwise with a version tag."""
    brings_worker: bool = True
    """True if it contains the engine and Seatrial; otherwise an init container installs them."""
    fabrics: tuple[str, ...] | None = None
    """Fabrics whose libraries it contains; None if unknown."""
    has_hyperpod_agent: bool = True
    """True if it contains the launcher of HyperPod's operator, or its contents are unknown."""
    published: bool = True
    """True if it can be pulled."""
    floating: bool = False
    """True if its tag changes with every build."""
    is_cataloged: bool = True
    """False for a reference outside the catalog, whose contents are unknown."""


@dataclass(frozen=True, slots=True)
class Scene:
    """The input of rendering."""

    plan: Plan
    profile: Profile
    node: NodeType
    fabric: Fabric
    """The network between the nodes."""
    tier: StorageTier | None
    """The storage tier of the volume; None if the spec names an existing claim."""
    image: PodImage
    """The image for training."""
    data_image: PodImage
    """The image for data preparation."""
    tensorboard_image: PodImage
    """The image for TensorBoard."""
    gpu_node_types: tuple[str, ...]
    """The profile's node types with GPUs, which pods without GPUs avoid."""
    attempt: Attempt
    own_catalog: Mapping[str, str]
    """The user's own catalog files, which no image contains."""
    accelerator: Accelerator | None = None
    """The GPU of the nodes; None without GPUs."""

    @property
    def home(self) -> str:
        """The run's directory on the shared volume."""
        return f"{self.plan.spec.cluster.storage.mount.rstrip('/')}/{self.plan.spec.name}"

    @property
    def on_cpu(self) -> bool:
        """True if the nodes have no GPUs."""
        return not self.node.gpus

    @property
    def share_of_node(self) -> float:
        """The fraction of each node that the run uses. Below 1 if it leaves GPUs to others."""
        if self.on_cpu:
            return 1.0
        return self.plan.machines.processes_per_node / self.node.gpus

    @property
    def fabric_devices(self) -> int:
        """The number of fabric devices of a pod; 0 if the run does not use the fabric."""
        if not self.fabric.device_glob:
            return 0
        # Devices are shared between GPUs, so a fraction of the GPUs gets that fraction of them.
        whole = self.node.fabric_resource_count or self.node.nics
        return max(1, int(whole * self.share_of_node))

    @property
    def gang(self) -> GangScheduler:
        """The gang scheduler; `none` for `gang: auto` if no cluster was queried."""
        cluster = self.plan.spec.cluster
        if cluster.queue is not None:
            return GangScheduler.KUEUE
        if cluster.gang is not Gang.AUTO:
            return GangScheduler(cluster.gang)
        return self.attempt.gang.scheduler if self.attempt.gang else GangScheduler.NONE

    @property
    def queue(self) -> str:
        """Kueue's local queue; empty if the run uses none."""
        chosen = self.attempt.gang.queue if self.attempt.gang else ""
        return self.plan.spec.cluster.queue or chosen

    @property
    def claim(self) -> str:
        """The name of the volume claim that pods mount."""
        return self.plan.spec.cluster.storage.claim or self.plan.spec.name


def scene_of(plan: Plan, catalog: Catalog, attempt: Attempt) -> Scene:
    """Look up the catalog facts for a plan."""
    machines = plan.machines
    profile = catalog.profile(machines.profile)
    return Scene(
        plan=plan,
        profile=profile,
        node=catalog.node_type(machines.node_type),
        fabric=catalog.fabric(machines.fabric),
        tier=None if plan.spec.cluster.storage.claim else catalog.storage(machines.storage),
        image=image_of(machines.image, catalog),
        data_image=image_of(_data_image(plan, profile), catalog),
        tensorboard_image=image_of(profile.images.get(TENSORBOARD, machines.image), catalog),
        gpu_node_types=tuple(name for name in profile.node_types if catalog.node_type(name).gpus),
        attempt=attempt,
        own_catalog=catalog.own_files() | catalog.model_files(plan.spec.model.huggingface),
        accelerator=catalog.accelerator(machines.accelerator) if machines.accelerator else None,
    )


def _data_image(plan: Plan, profile: Profile) -> str:
    """Return the image for data preparation from the spec or the profile."""
    chosen = plan.spec.cluster.preparation.image
    return chosen or profile.images.get(DATA, plan.machines.image)


def image_of(name: str, catalog: Catalog) -> PodImage:
    """Return the catalog's image of that name; any other name is an image reference."""
    try:
        found = catalog.image(name)
    except NotInCatalogError:
        return PodImage(name, floating=name.endswith(":latest"), is_cataloged=False)
    repository = found.reference.rpartition(":")[0]
    return PodImage(
        f"{repository}@{found.digest}" if found.digest else found.reference,
        found.brings_seatrial,
        found.fabrics,
        bool(found.hyperpod_agent),
        found.published,
        found.floating and not found.digest,
    )
