# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The random runs that the check and the engine are compared on, without the engine."""

import json
from random import Random

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.checks.check import check
from seatrial.findings import has_errors
from tests.engine.agreement.asking import static_errors
from tests.engine.agreement.drawing import (
    CHANGES,
    COMBINED,
    Change,
    Draw,
    combined,
    drawn,
    value_at,
)


def with_experts() -> Draw:
    """The first draw of a mixture of experts."""
    return next(
        draw for draw in map(drawn, range(100)) if value_at(draw.healthy, "model.dimensions.moe")
    )


def test_a_draw_is_the_same_at_any_time() -> None:
    assert drawn(17) == drawn(17)
    assert drawn(17).healthy != drawn(18).healthy


@pytest.mark.parametrize("number", range(25))
def test_healthy_runs_are_accepted(number: int, catalog: Catalog) -> None:
    verdict = check(json.dumps(drawn(number).healthy), "draw", catalog)
    assert not has_errors(verdict.findings), verdict.findings


@pytest.mark.parametrize("field", CHANGES)
def test_the_engine_can_be_asked_about_every_change(field: str, catalog: Catalog) -> None:
    run = with_experts().healthy
    value = CHANGES[field](Random(field), value_at(run, field))  # noqa: S311
    _, question = static_errors(Draw(0, run, Change(field, value)), catalog)
    assert question.world_size > 0
    assert "--num-layers" in question.words


def test_a_run_without_a_plan_is_asked_about_as_it_was_changed(catalog: Catalog) -> None:
    run = with_experts().healthy
    errors, question = static_errors(Draw(0, run, Change("training.micro_batch_size", 7)), catalog)
    assert errors
    assert question.words[question.words.index("--micro-batch-size") + 1] == "7"


def test_the_check_accepts_options_in_combinations_that_the_rules_allow(catalog: Catalog) -> None:
    seen: set[str] = set()
    for number in range(COMBINED, COMBINED + 8):
        errors, question = static_errors(combined(number, catalog), catalog)
        assert errors == ()
        seen |= {*question.options}
    assert len(seen) > 6
    assert combined(COMBINED, catalog) == combined(COMBINED, catalog)
