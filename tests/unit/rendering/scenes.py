# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Plans and renderings that the tests of this folder start from."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from seatrial.catalog.catalog import Catalog
from seatrial.catalog.entry import Kind
from seatrial.planning.plan import Plan
from seatrial.recipes.shipped import recipe, recipe_names
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.context import Scene, scene_of
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.render import Part, render
from seatrial.sdk.plan import load_plan
from seatrial.spec.cluster import Operator
from tests.conftest import resolved

CATALOG = Catalog()
FIRST = Attempt(code_digest=f"sha256:{'0' * 64}")
"""The first attempt, by a code that does not change with every commit."""
RENDERED = [name for name in recipe_names() if recipe(name).spec.cluster.profile != "local"]
"""The recipes that can be rendered on their own profile."""
PROFILES = [name for name in CATALOG.names(Kind.PROFILES) if name != "local"]
"""The profiles with Kubernetes."""


def scene(*overrides: str, attempt: Attempt = FIRST) -> Scene:
    """The scene of the tests' own spec, with overrides."""
    return scene_of(resolved(*overrides), CATALOG, attempt)


def manifests(*overrides: str, part: Part = Part.RUN, attempt: Attempt = FIRST) -> list[Manifest]:
    """The manifests of the tests' own spec, with overrides."""
    return list(render(resolved(*overrides), CATALOG, part, attempt).manifests)


def job(*overrides: str, attempt: Attempt = FIRST) -> Manifest:
    """The job itself: what is submitted last."""
    return manifests(*overrides, attempt=attempt)[-1]


def pod_templates(manifest: Manifest) -> list[Manifest]:
    """The pod templates of any kind of object that has some."""
    return [value for value in _mappings(manifest) if "containers" in value.get("spec", {})]


def pod(*overrides: str, attempt: Attempt = FIRST) -> Manifest:
    """The spec of the first training pod of the tests' own spec."""
    made = manifests(*overrides, attempt=attempt)
    found: Manifest = next(t for m in made[-2:] for t in pod_templates(m))["spec"]
    return found


def environment(container: Manifest) -> dict[str, Any]:
    """The variables of a container, by name; a reference as it stands."""
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}


@cache
def retargeted(
    name: str, profile_name: str, operator: Operator, more: tuple[str, ...] = ()
) -> Plan:
    """A recipe on the default machines and storage of another profile, with more overrides."""
    profile, found = CATALOG.profile(profile_name), recipe(name)
    mount, tier = found.spec.cluster.storage.mount, CATALOG.storage(profile.default_storage)
    volume = f"tier: {profile.default_storage}" if tier.csi_driver else "claim: shared"
    overrides = [
        f"cluster.profile={profile_name}",
        f"cluster.node_type={profile.default_node_type}",
        f"cluster.operator={operator}",
        f"cluster.storage={{{volume}, mount: {mount}}}",
    ]
    if found.spec.cluster.fabric is not None and profile_name != found.spec.cluster.profile:
        overrides.append(f"cluster.fabric={CATALOG.node_type(profile.default_node_type).fabric}")
    overrides += more
    # A cluster has GPUs and a container runtime of its own.
    for name_on_host in ("accelerator", "container"):
        if getattr(found.spec.cluster, name_on_host) is not None:
            overrides.append(f"cluster.{name_on_host}=null")
    return load_plan(found.path, overrides, CATALOG)[1]


def every_combination() -> list[tuple[str, str, Operator]]:
    """Every recipe on every profile with every operator of it."""
    return [
        (name, profile, operator)
        for name in recipe_names()
        for profile in PROFILES
        for operator in CATALOG.profile(profile).operators
    ]


def _mappings(value: Any) -> Iterator[Manifest]:
    if isinstance(value, dict):
        yield value
        for below in value.values():
            yield from _mappings(below)
    elif isinstance(value, list | tuple):
        for below in value:
            yield from _mappings(below)
