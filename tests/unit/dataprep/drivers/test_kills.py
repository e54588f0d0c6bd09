# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A few kills of a preparation; tests/faults has two hundred."""

import pytest

from tests.faults.kills import Bench, kill_at_call


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A corpus with what must come of it."""
    return Bench(tmp_path_factory.mktemp("kills"), 0)


@pytest.mark.parametrize(
    ("function", "inside", "number"),
    [
        ("link", "parent", 2),
        ("replace", "parent", 2),
        ("replace", "parent", 5),
        ("link", "parent", 5),
        ("unlink", "parent", 12),
        ("link", "worker", 3),
        ("replace", "worker", 4),
    ],
)
def test_a_kill_at_a_commit_loses_nothing_and_leaves_nothing(
    bench: Bench, function: str, inside: str, number: int
) -> None:
    assert kill_at_call(bench, function, inside, number)
