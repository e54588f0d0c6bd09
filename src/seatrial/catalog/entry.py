# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The kinds of entries in the catalog, and their base class."""

from collections.abc import Iterable
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Kind(StrEnum):
    """The kinds of entries, as named on the command line and in the files."""

    MODELS = "models"
    """Model presets: an architecture, and how its authors trained it."""
    ACCELERATORS = "accelerators"
    """GPUs: memory, peak rates, bandwidths."""
    NODE_TYPES = "node-types"
    """Cloud machine types: GPUs, network, CPU, memory, price."""
    FABRICS = "fabrics"
    """Networks between nodes: environment variables to set and to avoid."""
    STORAGE = "storage"
    """Storage tiers: bandwidth by capacity, capacity increments, drivers."""
    IMAGES = "images"
    """Container images and the engines they contain."""
    PROFILES = "profiles"
    """Kinds of clusters, which combine node types, storage and images."""
    COMPONENTS = "components"
    """What an administrator installs in a cluster: charts, versions, known conflicts."""

    @property
    def singular(self) -> str:
        """The singular name of the kind, for messages."""
        return "storage tier" if self is Kind.STORAGE else self.removesuffix("s").replace("-", " ")


Reference = tuple[tuple[str | int, ...], Kind, str]
"""A reference to an entry: the path of the fact, and the kind and name of the target."""


class Facts(BaseModel):
    """A frozen group of facts; unknown keys are errors, so that typos are reported."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Entry(Facts):
    """One named entry in the catalog, such as a node type."""

    title: str
    """Short description for tables."""
    source: str = Field(min_length=8)
    """Source of the facts: a URL, a paper, or `repository@commit path`."""
    sources: dict[str, str] = {}
    """Sources of individual facts, by field name, where they differ from `source`."""
    aliases: tuple[str, ...] = ()
    """Other names for the entry."""
    note: str = ""
    """Caveats to consider before you rely on the entry."""

    def named_entries(self) -> Iterable[Reference]:
        """Return all references to entries of other kinds."""
        return ()
