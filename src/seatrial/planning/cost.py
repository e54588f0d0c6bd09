# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a run costs: nodes for as long as it takes, at the list price of its machines."""

from dataclasses import dataclass
from datetime import date

from seatrial.catalog.node_types import NodeType

HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Cost:
    """The price of a run."""

    usd: float
    """US dollars for all nodes over the whole time."""
    usd_per_hour: float
    """List price of one node and hour."""
    as_of: date
    """The day on which the source stated the price."""
    region: str
    """The region it holds for."""
    source: str
    """Where the price was read."""


def cost_of(node: NodeType, nodes: int, seconds: float) -> Cost | None:
    """What the nodes cost for that time; nothing where no price is known."""
    price = node.price
    if price is None:
        return None
    usd = price.usd_per_hour * nodes * seconds / HOUR
    return Cost(usd, price.usd_per_hour, price.as_of, price.region, price.source)
