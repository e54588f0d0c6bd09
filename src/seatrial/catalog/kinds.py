# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The kinds of facts that the catalog holds."""

from enum import StrEnum


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
