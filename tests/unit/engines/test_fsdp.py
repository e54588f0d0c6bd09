# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Runs with Megatron's FSDP: their twin, and what they need and lack."""

from seatrial.engine_process.weights import why_not_exported
from seatrial.engines.engine import ShortRun, Trial
from seatrial.engines.megatron.command_line import engine_arguments
from seatrial.planning.layout import Layout
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
