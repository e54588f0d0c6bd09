# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How two layouts are compared: losses, gradient norms, and tokens that change their expert."""

from typing import Any

import pytest

from seatrial.engine_process.process import TrainingOutcome
from seatrial.monitoring.event_log import Event, EventKind
from seatrial.rehearsal.parity import FP32_BAR, HALF_BAR, bar_of, compare
from seatrial.spec.training import Precision

EVEN = [100, 100]


def run(**changed: dict[int, Any]) -> TrainingOutcome:
    """Ten steps, with other values at some steps."""
    usual = {"loss": 4.0, "grad_norm": 2.0, "experts": {"1": EVEN}}
    events = []
    for step in range(1, 11):
        values = {name: changed.get(name, {}).get(step, value) for name, value in usual.items()}
        events.append(Event(EventKind.STEP, step, 0.0, values))
    return TrainingOutcome(0, 1.0, tuple(events))


def moved(step: int, tokens: int = 1) -> dict[int, Any]:
    """Experts that differ from a step on."""
    return {s: {"1": [100 - tokens, 100 + tokens]} for s in range(step, 11)}


def test_equal_runs_agree() -> None:
    parity = compare(run(), run())
    assert parity.holds(FP32_BAR)
    assert parity.is_conclusive(FP32_BAR)
    assert parity.words(FP32_BAR) == "losses differ by 0e+00, gradient norms by 0e+00"


def test_a_gradient_norm_fails_alone() -> None:
    parity = compare(run(), run(grad_norm={7: 2.0001}))
    assert not parity.holds(FP32_BAR)
    assert parity.holds(HALF_BAR)
    assert "losses differ by 0e+00, gradient norms by 5e-05" in parity.words(FP32_BAR)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_value_that_is_not_finite_fails(value: float) -> None:
    assert not compare(run(), run(loss={3: value})).holds(HALF_BAR)
    assert not compare(run(), run(grad_norm={3: value})).holds(HALF_BAR)


def test_an_engine_without_norms_is_compared_by_its_losses() -> None:
    missing = dict.fromkeys(range(1, 11))
    parity = compare(run(grad_norm=missing), run(grad_norm=missing))
    assert parity.words(FP32_BAR) == "losses differ by 0e+00"


def test_a_token_that_changes_its_expert_explains_what_follows() -> None:
    parity = compare(run(), run(experts=moved(9), loss={9: 4.0002, 10: 4.0004}))
    assert parity.holds(FP32_BAR)
    assert not parity.is_conclusive(FP32_BAR)
    assert parity.words(FP32_BAR) == (
        "losses differ by 0e+00, gradient norms by 0e+00 until one token changed its expert at "
        "step 9; from then on losses differ by 1e-04, gradient norms by 0e+00"
    )


def test_it_does_not_explain_what_came_before() -> None:
    parity = compare(run(), run(experts=moved(9), loss={8: 4.0002}))
    assert not parity.holds(FP32_BAR)
    assert parity.is_conclusive(FP32_BAR)


def test_a_change_without_consequence_is_still_reported() -> None:
    parity = compare(run(), run(experts=moved(9, 2)))
    assert parity.holds(FP32_BAR)
    assert parity.is_conclusive(FP32_BAR)
    assert parity.words(FP32_BAR).endswith("; 2 tokens changed their expert at step 9")


def test_a_change_at_the_first_step_leaves_nothing_to_compare() -> None:
    parity = compare(run(), run(experts=moved(1), loss={1: 4.04}))
    assert parity.holds(FP32_BAR)
    assert not parity.is_conclusive(FP32_BAR)
    assert "one token changed its expert at step 1, the first step compared" in parity.words(
        FP32_BAR
    )


def test_a_change_of_an_expert_does_not_explain_any_difference() -> None:
    for loss in (5.0, float("inf")):
        parity = compare(run(), run(experts=moved(1), loss={1: loss}))
        assert not parity.holds(FP32_BAR)


def test_many_changes_at_once_are_no_rounding() -> None:
    parity = compare(run(), run(experts=moved(9, 40)))
    assert not parity.holds(FP32_BAR)
    assert "40 of 200 tokens changed their expert at step 9, more than rounding explains" in (
        parity.words(FP32_BAR)
    )


def test_half_precision_has_a_wider_bar() -> None:
    assert bar_of(Precision.FP32) is FP32_BAR
    assert {bar_of(p) for p in Precision if p is not Precision.FP32} == {HALF_BAR}
