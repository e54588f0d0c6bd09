# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Find slow nodes by measuring pairs of nodes, in at most log2(N) rounds.

In a round, all nodes measure at the same time, each with one partner. A healthy node is slow only
with a slow partner, and has another partner in the next round; a slow node is slow with every
partner. So half of the suspects of a round are cleared in the next one.
"""

from dataclasses import dataclass, field
from math import ceil, log2
from statistics import median

SLOW_SHARE = 0.5
"""A node is suspect if its best bandwidth is below this share of the median node's best."""


def partner(node: int, nodes: int, round_number: int) -> int | None:
    """Return the node's partner in a round, counted from 0; None if it has none in this round.

    The circle method of round-robin tournaments: no pair repeats in `nodes - 1` rounds. With an
    odd number of nodes, one of them pauses in each round.
    """
    turning = nodes - 1 if nodes % 2 == 0 else nodes
    if node == turning:
        # The fixed node meets the one that would otherwise meet itself.
        return next(other for other in range(turning) if 2 * other % turning == round_number)
    other = (round_number - node) % turning
    if other != node:
        return other
    return turning if turning < nodes else None


def most_rounds(nodes: int) -> int:
    """Return the number of rounds that finds a slow node. Three nodes need all three pairs."""
    return 3 if nodes == 3 else ceil(log2(nodes)) if nodes > 1 else 0


@dataclass(frozen=True, slots=True)
class PairMeasurement:
    """The bandwidth between two nodes in one round."""

    round_number: int
    nodes: tuple[int, int]
    gb_s: float
    """Bus bandwidth of an all-reduce over both nodes, GB/s."""


@dataclass(slots=True)
class PairSearch:
    """Decides from the measured pairs which nodes are slow, and if another round is needed."""

    nodes: int
    floor: float = 0.0
    """Minimum bandwidth from the catalog, GB/s; 0 if there is none."""
    measured: list[PairMeasurement] = field(default_factory=list)
    rounds: int = 0
    """Completed rounds."""

    def pairs(self) -> list[tuple[int, int]]:
        """Return the pairs of the next round."""
        found = ((node, partner(node, self.nodes, self.rounds)) for node in range(self.nodes))
        return [(node, other) for node, other in found if other is not None and node < other]

    def take(self, bandwidths: dict[tuple[int, int], float]) -> None:
        """Record the bandwidths of a round, by pair."""
        self.rounds += 1
        for pair, gb_s in sorted(bandwidths.items()):
            self.measured.append(PairMeasurement(self.rounds, pair, gb_s))

    def best(self) -> dict[int, float]:
        """Return the best bandwidth of each measured node."""
        found: dict[int, float] = {}
        for each in self.measured:
            for node in each.nodes:
                found[node] = max(found.get(node, 0.0), each.gb_s)
        return found

    @property
    def threshold(self) -> float:
        """The bandwidth below which a node is suspect, GB/s."""
        found = self.best()
        return max(self.floor, SLOW_SHARE * median(found.values())) if found else self.floor

    def slow(self) -> tuple[int, ...]:
        """Return the nodes that are slow with a healthy partner, in order."""
        best, least = self.best(), self.threshold
        suspects = {node for node, gb_s in best.items() if gb_s < least}
        proven = {
            node
            for each in self.measured
            for node, other in (each.nodes, each.nodes[::-1])
            if node in suspects and other not in suspects
        }
        return tuple(sorted(proven))

    @property
    def is_done(self) -> bool:
        """True if every node is known to be healthy or slow, or if more rounds would not help."""
        if self.rounds >= most_rounds(self.nodes):
            return True
        best, least = self.best(), self.threshold
        if len(best) < self.nodes or self.nodes == 3:
            return False
        suspects = {node for node, gb_s in best.items() if gb_s < least}
        return suspects == set(self.slow())
