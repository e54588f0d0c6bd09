# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The route of the traffic on each parallel axis: the link inside a domain, or the network.

Ranks are numbered tp, cp, dp, pp, the first fastest (`planning/layout.py`), so the traffic of an
axis stays inside a domain if all axes up to it fit into one domain.
"""

from dataclasses import dataclass

from seatrial.planning.layout import Layout
from seatrial.planning.workload import Hardware


@dataclass(slots=True)
class Route:
    """Seconds of traffic at the nominal rate, on the link inside a domain and on the network."""

    link: float = 0.0
    """Seconds on the link between GPUs."""
    network: float = 0.0
    """Seconds on the network between nodes."""

    def add(self, other: "Route") -> None:
        """Add the seconds of a second route."""
        self.link += other.link
        self.network += other.network


class Placement:
    """The placement of the ranks of a layout on the machines."""

    __slots__ = ("_link", "_network", "domain", "layout")

    def __init__(self, layout: Layout, hardware: Hardware) -> None:
        """Read the bandwidths of the hardware."""
        self.layout = layout
        self.domain = max(hardware.link_domain_gpus, hardware.gpus_per_node)
        self._link = hardware.link_bandwidth
        self._network = hardware.network_bandwidth

    def ring(self, moved: float, members: int, stride: int) -> Route:
        """Return the route of a collective whose members are `stride` ranks apart.

        Each member moves `moved` bytes. Outside the domain, the traffic uses the network, with the
        combined network cards of all members in one domain.
        """
        if members <= 1:
            return Route()
        if members * stride <= self.domain:
            return Route(link=moved / self._link)
        together = max(1, self.domain // stride)
        return Route(network=moved / (self._network * together))

    def exchange(self, moved: float, members: int, stride: int) -> Route:
        """Return the route of an all-to-all, in which each member sends `moved` bytes in total."""
        if members <= 1:
            return Route()
        inside = min(members, max(1, self.domain // stride))
        away = (members - inside) / members
        near = (inside - 1) / members
        return Route(moved * near / self._link, moved * away / self._network)

    def neighbour(self, moved: float, stride: int, members: int) -> Route:
        """Return the route of a transfer to the rank `stride` away, in a chain of `members`."""
        if members <= 1:
            return Route()
        if members * stride <= self.domain:
            return Route(link=moved / self._link)
        return Route(network=moved / self._network)
