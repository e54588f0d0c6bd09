# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Decides which components a cluster needs for a run, and in which versions.

The catalog has the components. For each role, the first one that fits the cluster is used.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from seatrial.catalog.catalog import Catalog, Kind
from seatrial.catalog.components import ClusterComponent, ComponentRole, Conflict
from seatrial.codes.cluster_checks import SiteCode
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where
from seatrial.planning.plan import Machines
from seatrial.spec.cluster import Gang, Operator
from seatrial.spec.run import RunSpec


@dataclass(frozen=True, slots=True)
class SiteNeeds:
    """The properties of a run that decide which components its cluster needs."""

    profile: str
    cloud: str
    operator: Operator
    operator_version: str = ""
    """The version that the spec sets, such as `2.1`; empty for any."""
    device: str = ""
    """Resource name of the fabric devices; empty if pods request none."""
    fabric: str = ""
    """The network between nodes, as in the catalog."""
    csi_driver: str = ""
    """Empty if the run uses an existing PVC."""
    gpus: bool = True
    queue: bool = True
    """True if Kueue admits the run, or may be chosen to."""
    metrics: bool = True
    """True if Prometheus collects the run's metrics."""


def needs_of(spec: RunSpec, machines: Machines, catalog: Catalog) -> SiteNeeds:
    """Return what a run needs from its cluster."""
    cluster, profile = spec.cluster, catalog.profile(machines.profile)
    node = catalog.node_type(machines.node_type)
    claimed = machines.storage.startswith("claim/")
    several = machines.nodes > 1
    return SiteNeeds(
        profile=machines.profile,
        cloud=str(profile.cloud),
        operator=machines.operator,
        operator_version=cluster.operator_version or "",
        device=node.fabric_resource if catalog.fabric(machines.fabric).device_glob else "",
        fabric=machines.fabric,
        csi_driver="" if claimed else catalog.storage(machines.storage).csi_driver,
        gpus=bool(machines.accelerator),
        queue=cluster.queue is not None or (cluster.gang is Gang.AUTO and several),
        metrics=spec.monitoring.prometheus.enabled,
    )


def needed_components(needs: SiteNeeds, catalog: Catalog) -> dict[str, ClusterComponent]:
    """Return the components that a cluster needs, by name, in the order of their roles."""
    found: dict[ComponentRole, tuple[str, ClusterComponent]] = {}
    for name in catalog.names(Kind.COMPONENTS):
        component = catalog.component(name)
        if component.role not in found and _fits(component, needs):
            found[component.role] = (name, component)
    return dict(found[role] for role in ComponentRole if role in found)


def _fits(component: ClusterComponent, needs: SiteNeeds) -> bool:
    """True if a component is for this cluster, and the run needs it."""
    wanted = {
        ComponentRole.GPU: needs.gpus,
        ComponentRole.FABRIC: needs.device in component.devices
        or needs.fabric in component.fabrics,
        ComponentRole.FABRIC_SETTINGS: needs.device in component.devices,
        ComponentRole.QUEUE: needs.queue,
        ComponentRole.STORAGE: bool(needs.csi_driver) and component.csi_driver == needs.csi_driver,
        ComponentRole.METRICS: needs.metrics,
        ComponentRole.GPU_METRICS: needs.metrics and needs.gpus,
    }
    return (
        wanted.get(component.role, True)
        and (not component.clouds or needs.cloud in component.clouds)
        and (not component.profiles or needs.profile in component.profiles)
        and (not component.operators or needs.operator in component.operators)
    )


def brought_by(components: Mapping[str, ClusterComponent]) -> dict[str, str]:
    """Return the components that another one installs, with the name of that one."""
    return {
        name: bringer
        for bringer, component in components.items()
        for name in component.brings
        if name in components
    }


def conflicts_among(
    versions: Mapping[str, str], catalog: Catalog
) -> Iterator[tuple[str, str, Conflict]]:
    """Yield known conflicts between components in these versions: both names, and the conflict."""
    for name, version in versions.items():
        for conflict in catalog.component(name).conflicts:
            other = versions.get(conflict.other, "")
            if conflict.versions.contains(version) and conflict.other_versions.contains(other):
                yield name, conflict.other, conflict


def conflict_rule(versions: Mapping[str, str], name: str, other: str, conflict: Conflict) -> str:
    """Describe a conflict between two components."""
    return (
        f"{name} {versions[name]} and {other} {versions[other]} are known not to work together: "
        f"{conflict.reason} ({conflict.source})."
    )


@dataclass(frozen=True, slots=True)
class Release:
    """A component in the version and with the values to install."""

    name: str
    component: ClusterComponent
    version: str = ""
    """Empty if the cloud chooses."""
    values: Mapping[str, Any] | None = None
    part_of: str = ""
    """The component that installs this one; empty if it is installed by itself."""

    @property
    def tag(self) -> str:
        """The git tag of the version."""
        return self.component.tag.replace("{version}", self.version)

    @property
    def images(self) -> tuple[str, ...]:
        """The images that the release pulls; empty if the catalog does not list them.

        The component that installs another one lists the images of both.
        """
        known = {} if self.part_of else self.component.images
        found = known.get(self.version) or known.get("any", ())
        return tuple(each.replace("{version}", self.version) for each in found)

    def to_dict(self) -> dict[str, Any]:
        """Return the release for JSON output."""
        facts = self.component
        return {
            "name": self.name,
            "title": facts.title,
            "role": str(facts.role),
            "version": self.version,
            "repository": facts.repository,
            "chart": facts.chart,
            "path": facts.path,
            "manifests": list(facts.manifests),
            "managed": facts.managed,
            "namespace": facts.namespace,
            "values": dict(self.values or {}),
            "images": list(self.images),
            "part_of": self.part_of,
            "note": facts.note,
            "source": facts.source,
        }


def releases_for(needs: SiteNeeds, catalog: Catalog) -> tuple[Release, ...]:
    """Return the components to install, in versions that are not known to conflict.

    Raises FindingsError if every combination of versions has a known conflict.
    """
    components = needed_components(needs, catalog)
    parts = brought_by(components)
    candidates = {
        name: _candidates(name, component, needs)
        for name, component in components.items()
        if name not in parts
    }
    versions = _without_conflicts(candidates, catalog)
    return tuple(
        Release(
            name,
            component,
            versions.get(name, ""),
            _values(component, components),
            parts.get(name, ""),
        )
        for name, component in components.items()
    )


def _candidates(name: str, component: ClusterComponent, needs: SiteNeeds) -> tuple[str, ...]:
    """Return the versions to choose from: those of the spec's `operator_version`, if it is set."""
    wanted = needs.operator_version
    if component.role is not ComponentRole.OPERATOR or not wanted or not component.versions:
        return component.versions or ("",)
    found = tuple(each for each in component.versions if f"{each}.".startswith(f"{wanted}."))
    if found:
        return found
    rule = f"{name} {wanted} is not among the versions that are known to work."
    fix = f"Use one of: {', '.join(component.versions)}."
    where = Where("cluster.operator_version")
    raise FindingsError([Finding(SiteCode.OTHER_VERSION, Severity.ERROR, where, rule, wanted, fix)])


def _without_conflicts(candidates: Mapping[str, Sequence[str]], catalog: Catalog) -> dict[str, str]:
    """Return the first combination of versions without a known conflict."""
    refused: list[Finding] = []
    for combination in product(*candidates.values()):
        versions = dict(zip(candidates, combination, strict=True))
        found = list(conflicts_among(versions, catalog))
        if not found:
            return versions
        refused += [_refusal(versions, *each) for each in found]
    raise FindingsError(list(dict.fromkeys(refused)))


def _refusal(versions: Mapping[str, str], name: str, other: str, conflict: Conflict) -> Finding:
    fix = (
        f"Set cluster.operator_version to another version of {other}, or do without {name}: "
        "remove cluster.queue, and set cluster.gang to another scheduler or to none."
    )
    rule = conflict_rule(versions, name, other, conflict)
    where = Where("cluster.operator_version")
    return Finding(SiteCode.CONFLICT, Severity.ERROR, where, rule, versions[other], fix)


def _values(component: ClusterComponent, installed: Iterable[str]) -> dict[str, Any]:
    """Return the values of a chart, including those for the other components."""
    values: dict[str, Any] = dict(component.values)
    for name, more in component.values_with.items():
        if name in installed:
            values = _merged(values, more)
    return values


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        merged[key] = _merged(old, value) if both and isinstance(old, dict) else value
    return merged
