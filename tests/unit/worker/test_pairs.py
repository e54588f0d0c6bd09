# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Slow nodes are found by pairs, in at most log2(N) rounds."""

from itertools import combinations
from math import ceil, log2

import pytest

from seatrial.worker.node.pairs import PairSearch, most_rounds, partner


def searched(nodes: int, slow: set[int], floor: float = 0.0, fast: float = 10.0) -> PairSearch:
    """A search in which a pair is slow if one of its nodes is."""
    search = PairSearch(nodes, floor)
    while not search.is_done:
        search.take({pair: 1.0 if slow & set(pair) else fast for pair in search.pairs()})
    return search


@pytest.mark.parametrize("nodes", range(2, 34))
def test_every_pair_meets_once(nodes: int) -> None:
    met: list[tuple[int, int]] = []
    for number in range(nodes - 1 if nodes % 2 == 0 else nodes):
        partners = [partner(node, nodes, number) for node in range(nodes)]
        # Partners are mutual, and at most one node pauses.
        assert all(
            partners[other] == node for node, other in enumerate(partners) if other is not None
        )
        assert partners.count(None) == nodes % 2
        met += [(node, other) for node, other in enumerate(partners) if other and node < other]
    assert sorted(met) == list(combinations(range(nodes), 2))


@pytest.mark.parametrize("nodes", [*range(4, 34), 64, 100, 1000])
def test_one_slow_node_is_found_within_the_bound(nodes: int) -> None:
    for slow in range(nodes) if nodes < 100 else (0, 17, nodes - 1):
        search = searched(nodes, {slow})
        assert search.slow() == (slow,)
        assert search.rounds <= ceil(log2(nodes)) == most_rounds(nodes)


def test_two_slow_nodes_of_eight_are_found_in_three_rounds() -> None:
    for slow in combinations(range(8), 2):
        search = searched(8, set(slow))
        assert search.slow() == slow
        assert search.rounds <= 3


def test_three_nodes_need_all_three_pairs() -> None:
    for slow in range(3):
        search = searched(3, {slow})
        assert (search.slow(), search.rounds) == ((slow,), 3)


def test_equal_nodes_need_one_round_and_none_is_slow() -> None:
    search = searched(8, set())
    assert (search.slow(), search.rounds) == ((), 1)


def test_two_nodes_are_measured_and_neither_is_accused() -> None:
    search = searched(2, {1})
    assert (search.slow(), search.rounds) == ((), 1)
    assert search.best() == {0: 1.0, 1: 1.0}


def test_a_single_node_has_no_pairs() -> None:
    assert PairSearch(1).is_done


def test_a_floor_makes_a_node_suspect_that_half_the_others_would_not() -> None:
    assert searched(8, {2}, fast=1.8).slow() == ()
    assert searched(8, {2}, floor=1.5, fast=1.8).slow() == (2,)
    # If all nodes are below the floor, the floor or the fabric is wrong, and no node is accused.
    assert searched(8, set(), floor=20.0).slow() == ()
