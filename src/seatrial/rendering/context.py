# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A plan with the facts around it: all that a manifest is made of."""

from collections.abc import Mapping
from dataclasses import dataclass

from seatrial.catalog.catalog import Catalog
from seatrial.catalog.fabrics import Fabric
from seatrial.catalog.node_types import NodeType
from seatrial.catalog.profiles import Profile
from seatrial.catalog.storage import StorageTier
from seatrial.errors import NotInCatalogError
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt

DATA = "data"
"""The key of a profile's images under which the image for data preparation stands."""


@dataclass(frozen=True, slots=True)
class PodImage:
    """A container image as pods name it."""

    reference: str
    """Repository with a digest where it is known, else with a version tag."""
    brings_worker: bool = True
    """Whether the engine and Seatrial are inside; otherwise an init container installs them."""
    fabrics: tuple[str, ...] | None = None
    """Fabrics whose libraries it brings; nothing when that is not known."""
    published: bool = True
    """Whether it can be pulled."""
    floating: bool = False
    """Whether its tag moves from build to build."""
    is_cataloged: bool = True
    """False for a reference that the catalog does not have: what is inside is an assumption."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that rendering looks at."""

    plan: Plan
    """What the run is."""
    profile: Profile
    """The kind of cluster."""
    node: NodeType
    fabric: Fabric
    """The network between them."""
    tier: StorageTier | None
    """The tier of the volume; nothing when the spec names an existing claim."""
    image: PodImage
    """What training runs in."""
    data_image: PodImage
    """What data preparation runs in."""
    attempt: Attempt
    """Which submission it is."""
    own_catalog: Mapping[str, str]
    """The user's own facts, file by file, which no image brings."""

    @property
    def home(self) -> str:
        """The run's own directory on the shared volume."""
        return f"{self.plan.spec.cluster.storage.mount.rstrip('/')}/{self.plan.spec.name}"

    @property
    def on_cpu(self) -> bool:
        """Whether the nodes have no GPU, and the engine trains on their processors."""
        return not self.node.gpus

    @property
    def share_of_node(self) -> float:
        """How much of each node the run takes: all, unless it leaves GPUs to others."""
        if self.on_cpu:
            return 1.0
        return self.plan.machines.processes_per_node / self.node.gpus

    @property
    def fabric_devices(self) -> int:
        """Devices of the fabric that a pod sees; none when the run does not use it."""
        if not self.fabric.device_glob:
            return 0
        # A device serves a GPU or several, so a part of the GPUs gets a part of them.
        whole = self.node.fabric_resource_count or self.node.nics
        return max(1, int(whole * self.share_of_node))

    @property
    def claim(self) -> str:
        """The name of the claim that pods mount."""
        return self.plan.spec.cluster.storage.claim or self.plan.spec.name


def scene_of(plan: Plan, catalog: Catalog, attempt: Attempt) -> Scene:
    """The facts around a plan, from the catalog."""
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
        attempt=attempt,
        own_catalog=catalog.own_files(),
    )


def _data_image(plan: Plan, profile: Profile) -> str:
    """The image for data preparation, as the spec or the profile names it."""
    chosen = plan.spec.cluster.preparation.image
    return chosen or profile.images.get(DATA, plan.machines.image)


def image_of(name: str, catalog: Catalog) -> PodImage:
    """The image of that name in the catalog; anything else is a reference as it stands."""
    try:
        found = catalog.image(name)
    except NotInCatalogError:
        return PodImage(name, floating=name.endswith(":latest"), is_cataloged=False)
    repository = found.reference.rpartition(":")[0]
    return PodImage(
        f"{repository}@{found.digest}" if found.digest else found.reference,
        found.brings_seatrial,
        found.fabrics,
        found.published,
        found.floating and not found.digest,
    )
