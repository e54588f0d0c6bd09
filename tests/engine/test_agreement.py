# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The static check and the engine's own validation, asked about the same random runs."""

import json

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.engine_process.process import ask_engine
from seatrial.engines.megatron.command_line import engine_arguments
from seatrial.engines.megatron.engine import engine_environment
from seatrial.engines.megatron.trial import production_arguments
from seatrial.spec.loader import loads
from tests.conftest import MEGATRON, plan_spec
from tests.engine.agreement.asking import static_errors
from tests.engine.agreement.compare import DRAWS, FRESH, Compared, asked_fresh, compare, unexplained
from tests.engine.agreement.drawing import COMBINED, OPTIONS, SCHEDULES, drawn
from tests.engine.agreement.healthy import CUSTOM_LAYOUTS, NEWER

pytestmark = [pytest.mark.engine, pytest.mark.timeout(2400)]

FEW = 300
BUILT = 6
"""Runs whose first and last stage are built as well."""


def hold(found: list[Compared]) -> None:
    """Both sides agree, or the static check has a reason to refuse more."""
    assert [compared for compared in found if compared.missed] == []
    assert unexplained(found) == []
    # Else nothing was compared.
    judged = [compared for compared in found if compared.accepted is not None]
    assert len(judged) > 0.9 * len(found)
    assert sum(compared.accepted is True for compared in judged) > 0.4 * len(found)
    assert sum(compared.accepted is False for compared in judged) > 0.1 * len(found)


def test_both_agree_on_a_few_runs() -> None:
    hold(list(compare(range(DRAWS, DRAWS + FEW))))


def test_both_agree_on_a_few_runs_of_newer_models() -> None:
    hold(list(compare(range(NEWER, NEWER + FEW))))


def test_both_agree_on_a_few_runs_with_other_options() -> None:
    found = list(compare(range(OPTIONS, OPTIONS + FEW)))
    assert [compared for compared in found if compared.missed] == []
    assert unexplained(found) == []


def test_both_agree_on_a_few_batch_schedules() -> None:
    hold(list(compare(range(SCHEDULES, SCHEDULES + FEW))))


def test_both_agree_on_a_few_runs_with_custom_layouts() -> None:
    hold(list(compare(range(CUSTOM_LAYOUTS, CUSTOM_LAYOUTS + FEW))))


def test_the_engine_accepts_the_options_that_the_rules_allow() -> None:
    found = list(compare(range(COMBINED, COMBINED + FEW // 6)))
    assert [compared.errors for compared in found if compared.errors] == []
    assert [compared for compared in found if compared.accepted is False] == []


@pytest.mark.slow
def test_the_static_check_accepts_nothing_that_the_engine_refuses() -> None:
    hold(list(compare(range(DRAWS))))


@pytest.mark.slow
def test_one_process_answers_as_processes_of_their_own_do() -> None:
    numbers = range(0, 5 * FRESH, 5)
    together = {one.number: (one.accepted, one.reason) for one in compare(range(5 * FRESH))}
    alone = {number: (accepted, reason) for number, accepted, reason in asked_fresh(numbers)}
    assert alone == {number: together[number] for number in numbers}
    assert {accepted for accepted, _ in alone.values()} >= {True, False}


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, NEWER, CUSTOM_LAYOUTS], ids=["older", "newer", "layouts"])
def test_what_both_accept_is_built(first: int) -> None:
    catalog, built = Catalog(), 0
    for number in range(first, first + DRAWS):
        draw = drawn(number)
        if static_errors(draw, catalog)[0] or draw.spec["training"]["precision"] != "bf16":
            continue
        plan = plan_spec(loads(json.dumps(draw.spec), "draw"), catalog)
        arguments, layout = production_arguments(engine_arguments(plan)), plan.layout
        stages = sorted({0, layout.pp_size - 1})
        if first == CUSTOM_LAYOUTS:
            # Any stage may have multi-token prediction or the final norm.
            stages = list(range(layout.pp_size))
        settings = engine_environment(plan)
        answer = ask_engine(arguments, layout.world_size, stages, 300, settings, engine=MEGATRON)
        assert answer["accepted"] is True, f"draw {number}: {answer}"
        assert {int(stage): count for stage, count in answer["parameters"].items()} == {
            stage: plan.stage_parameters[stage] for stage in stages
        }
        built += 1
        if built == BUILT:
            return
    pytest.fail("no run was drawn that both accept")
