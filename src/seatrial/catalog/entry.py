# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The kinds of facts that the catalog holds."""

from collections.abc import Iterable
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Kind(StrEnum):
    """The kinds of facts, by the name that the command line and the files use."""

    MODELS = "models"
    """Model presets: an architecture, and how its authors trained it."""
    ACCELERATORS = "accelerators"
    """GPUs: memory, peak rates, bandwidths."""
    NODE_TYPES = "node-types"
    """Machines of the clouds: GPUs, network, CPU, memory, price."""
    FABRICS = "fabrics"
    """Networks between nodes: variables to set, and never to set."""
    STORAGE = "storage"
    """Storage tiers: bandwidth by capacity, steps of capacity, drivers."""
    IMAGES = "images"
    """Container images and the engine inside."""
    PROFILES = "profiles"
    """Kinds of clusters, which tie the rest together."""

    @property
    def singular(self) -> str:
        """One thing of the kind, in words."""
        return "storage tier" if self is Kind.STORAGE else self.removesuffix("s").replace("-", " ")


Reference = tuple[tuple[str | int, ...], Kind, str]
"""The fact that refers, the kind of what it refers to, and that thing's name."""


class Facts(BaseModel):
    """A frozen group of facts; an unknown key is an error, so that a typo cannot hide."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class Entry(Facts):
    """One named thing of the catalog, such as a node type."""

    title: str
    """What it is, in words for a table."""
    source: str = Field(min_length=8)
    """Where the facts come from: an address, a paper, or `repository@commit path`."""
    sources: dict[str, str] = {}
    """Sources of single facts that come from elsewhere, by field name."""
    aliases: tuple[str, ...] = ()
    """Other names under which it is found."""
    note: str = ""
    """What a user should know before relying on it."""

    def named_entries(self) -> Iterable[Reference]:
        """Everything that it names in other kinds."""
        return ()
