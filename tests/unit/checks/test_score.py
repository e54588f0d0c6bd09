# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The broken runs are caught at the right place with the right code, and their fixes mend them."""

import pytest

from backtest.checks.rates_page import PAGE, rates_text
from backtest.checks.score import (
    PARTS,
    SETS,
    STATIC,
    Score,
    cases_of,
    part_of,
    right_codes,
    score_of,
)
from seatrial.catalog.catalog import Catalog
from seatrial.codes.registry import known_codes

pytestmark = pytest.mark.timeout(900)
LEAST = 0.95
LEAST_CASES = {STATIC: 100, "cluster": 20, "checkpoints": 10}


@pytest.fixture(scope="module")
def scores() -> list[Score]:
    return [score_of(case, Catalog()) for case in cases_of(SETS / "first")]


@pytest.mark.parametrize("part", [STATIC, *PARTS.values()])
def test_the_first_set_is_caught_at_the_right_place(part: str, scores: list[Score]) -> None:
    alike = [score for score in scores if part_of(score.kind) == part]
    missed = [score.name for score in alike if not score.right]
    unmended = [score.name for score in alike if score.right and not score.mended]
    assert len(alike) > LEAST_CASES[part]
    assert len(missed) <= (1 - LEAST) * len(alike), missed
    assert len(missed) + len(unmended) <= (1 - LEAST) * len(alike), unmended


def test_what_the_check_itself_proposes_mends(scores: list[Score]) -> None:
    assert [score.name for score in scores if score.own == "fails"] == []


def test_what_was_mended_of_the_second_set_after_scoring_stays_mended() -> None:
    found = [score_of(case, Catalog()) for case in cases_of(SETS / "second")]
    assert len(found) == 50
    assert [score.name for score in found if not (score.right and score.mended)] == []


def test_every_case_has_a_code_that_is_known() -> None:
    cases = {case.name for name in ("first", "second") for case in cases_of(SETS / name)}
    assert set(right_codes()) == cases
    assert set(right_codes().values()) <= set(known_codes())


def test_the_page_has_the_rates_that_were_stored() -> None:
    assert rates_text() in PAGE.read_text(encoding="utf-8")
