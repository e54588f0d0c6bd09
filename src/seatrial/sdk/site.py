# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What an administrator installs in a cluster before the first run."""

from dataclasses import dataclass
from pathlib import Path

from seatrial.catalog.catalog import Catalog, Kind, default_catalog
from seatrial.errors import UsageError
from seatrial.planning.resolve import resolve_basis
from seatrial.recipes.starter import Wishes, starter, usual
from seatrial.rendering.site import Release, SiteNeeds, needs_of, releases_for
from seatrial.rendering.site_files import SiteFormat, site_text
from seatrial.sdk.plan import Overrides, PathOrText, override_texts
from seatrial.spec.cluster import Operator
from seatrial.spec.loader import LoadedSpec, load, loads

_TYPICAL_NODES = 2
"""Nodes of the run that stands for a profile: with several nodes, it needs fabric and queue."""


@dataclass(frozen=True, slots=True)
class SiteComponents:
    """The components that a cluster needs."""

    target: str
    """The profile or the spec."""
    needs: SiteNeeds
    """The properties of the run that decide."""
    releases: tuple[Release, ...]
    """The components with versions and values, in the order of installation."""

    def text(self, form: SiteFormat | str = "commands") -> str:
        """Return the components as `commands`, `helmfile` or `argocd`."""
        title = (
            f"Components for {self.target}: profile {self.needs.profile}, operator "
            f"{self.needs.operator}. Written by seatrial site."
        )
        return site_text(self.releases, SiteFormat(form), title)


def site(
    target: PathOrText, overrides: Overrides = (), *, catalog: Catalog | None = None
) -> SiteComponents:
    """Return the components that a cluster needs, in versions that work together.

    Raises FindingsError if the only versions to choose from are known not to work together.

    Args:
        target: A cluster profile such as `aks`, or the spec of a run.
        overrides: Fields to override, such as `cluster.operator=trainjob`.
        catalog: The catalog to use.
    """
    facts = catalog or default_catalog()
    loaded = _loaded(str(target), overrides, facts)
    machines = resolve_basis(loaded, facts).machines
    if machines.operator is Operator.TORCHRUN:
        raise UsageError(
            f"The profile {machines.profile} runs on this host and needs no cluster components. "
            "Use a profile such as aks, eks or gke."
        )
    needs = needs_of(loaded.spec, machines, facts)
    return SiteComponents(str(target), needs, releases_for(needs, facts))


def _loaded(target: str, overrides: Overrides, catalog: Catalog) -> LoadedSpec:
    """Load the spec, or a typical one for a profile."""
    path = Path(target)
    if path.exists() or path.suffix in (".yaml", ".yml"):
        return load(path, override_texts(overrides))
    name = catalog.canonical(Kind.PROFILES, target)
    model = usual(catalog.profile(name)).model
    nodes = 1 if Operator.TORCHRUN in catalog.profile(name).operators else _TYPICAL_NODES
    text = starter(Wishes("site", model, name, nodes=nodes), catalog).text
    return loads(text, target, override_texts(overrides))
