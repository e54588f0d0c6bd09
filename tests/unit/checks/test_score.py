# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The broken runs of the first set are caught at the right place, and their fixes mend them."""

from pathlib import Path

import pytest

from scripts.score_checks import PARTS, STATIC, Score, cases_of, part_of, score_of
from seatrial.catalog.catalog import Catalog

FIRST = Path(__file__).parents[2] / "data" / "broken_runs" / "first"
LEAST = 0.95
LEAST_CASES = {STATIC: 100, "cluster": 20, "checkpoints": 10}


@pytest.fixture(scope="module")
def scores() -> list[Score]:
    return [score_of(case, Catalog()) for case in cases_of(FIRST)]


@pytest.mark.parametrize("part", [STATIC, *PARTS.values()])
def test_the_first_set_is_caught_at_the_right_place(part: str, scores: list[Score]) -> None:
    alike = [score for score in scores if part_of(score.kind) == part]
    missed = [score.name for score in alike if not score.caught]
    unmended = [score.name for score in alike if score.caught and not score.mended]
    assert len(alike) > LEAST_CASES[part]
    assert len(missed) <= (1 - LEAST) * len(alike), missed
    assert len(missed) + len(unmended) <= (1 - LEAST) * len(alike), unmended
