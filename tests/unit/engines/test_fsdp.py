# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Runs with Megatron's FSDP: their twin, and what they need and lack."""

import pytest

from seatrial.engine_process.weights import why_not_exported
from seatrial.engines.engine import ShortRun, Trial
from seatrial.engines.megatron.command_line import engine_arguments
from seatrial.planning.layout import Layout
from seatrial.rehearsal.drills import other_layout
from tests.conftest import MEGATRON, resolved

FSDP = "parallelism.sharding=fsdp"


def test_the_twin_of_a_fully_sharded_run_is_fully_sharded() -> None:
    plan = resolved(FSDP)
    twin = MEGATRON.trial_arguments(plan, Trial("", "", mock_tokenizer=True))
    assert twin["use-megatron-fsdp"] is True
    assert twin["ckpt-format"] == "fsdp_dtensor"
    # gloo has no reduction that multiplies as well.
    assert twin["no-gradient-reduce-div-fusion"] is True
    assert "no-gradient-reduce-div-fusion" not in engine_arguments(plan)
    assert MEGATRON.no_rehearsal(plan) == ""


def test_a_fully_sharded_twin_is_compared_with_one_rank_that_is_not() -> None:
    plan = resolved(FSDP)
    for layout, sharded in ((Layout(), None), (Layout(dp_size=2), True)):
        short = ShortRun(5, layout)
        trial = Trial("", "", mock_tokenizer=True, short=short)
        assert MEGATRON.trial_arguments(plan, trial)["use-megatron-fsdp"] is sharded
    one = MEGATRON.trial_arguments(
        resolved("parallelism.sharding=none"), Trial("", "", True, None, ShortRun(5, Layout()))
    )
    assert not one["use-distributed-optimizer"]


def test_a_fully_sharded_run_needs_einops_and_is_not_exported() -> None:
    assert "einops" in MEGATRON.gpu_packages(resolved(FSDP))
    assert "einops" not in MEGATRON.gpu_packages(resolved())
    assert "without a record" in why_not_exported(MEGATRON, engine_arguments(resolved(FSDP)))
    assert why_not_exported(MEGATRON, engine_arguments(resolved())) == ""


@pytest.mark.parametrize(
    ("overrides", "field"),
    [
        (("training.precision=fp16",), "training.precision"),
        (("training.precision=fp32", "model.preset=llama3-8b"), "training.precision"),
        (("parallelism.pp_size=2",), "parallelism.pp_size"),
    ],
    ids=str,
)
def test_a_plan_that_cannot_be_built_or_saved_fully_sharded_is_refused(
    overrides: tuple[str, ...], field: str
) -> None:
    (found,) = MEGATRON.plan_problems(resolved(FSDP, *overrides))
    assert found.field == field
    assert MEGATRON.plan_problems(resolved(*overrides)) == []
    assert MEGATRON.plan_problems(resolved(FSDP)) == []


def test_a_fully_sharded_mixture_of_experts_reshards_without_stages() -> None:
    assert other_layout(Layout(dp_size=2), moe=True, fsdp=True) == Layout()
    assert other_layout(Layout(tp_size=2), moe=True, fsdp=True) == Layout(tp_size=2, dp_size=2)
    assert other_layout(Layout(dp_size=2), moe=True).pp_size == 2
