# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What Megatron does not combine with Muon is refused, and Adam's flags stay as they were."""

import pytest

from seatrial.engines.engine import Trial
from seatrial.engines.megatron.command_line import engine_arguments
from seatrial.engines.megatron.optimizer_flags import optimizer_problems
from seatrial.rehearsal.rehearse import NOT_PROVEN, not_proven
from tests.conftest import MEGATRON, resolved

MUON = "training.optimizer.name=muon"


@pytest.mark.parametrize(
    ("overrides", "field", "rule"),
    [
        (("training.precision=fp16",), "training.precision", "fp16 with Muon"),
        (("training.precision=fp32",), "training.precision", "in fp32"),
        (("parallelism.sharding=fsdp",), "parallelism.sharding", "FSDP with Muon"),
        (
            ("engine.options.optimizer=adam",),
            "engine.options.optimizer",
            "training.optimizer.name sets Muon",
        ),
    ],
)
def test_what_does_not_combine_is_refused(
    overrides: tuple[str, ...], field: str, rule: str
) -> None:
    (problem,) = optimizer_problems(resolved(MUON, *overrides))
    assert problem.field == field
    assert rule in problem.rule


def test_muon_in_bf16_is_accepted_with_and_without_shared_states() -> None:
    for sharding in ("none", "optimizer"):
        assert not list(optimizer_problems(resolved(MUON, f"parallelism.sharding={sharding}")))


def test_a_checkpoint_of_muon_needs_no_flag_to_load_in_another_layout() -> None:
    assert engine_arguments(resolved())["dist-ckpt-optim-fully-reshardable"] is True
    assert not engine_arguments(resolved(MUON))["dist-ckpt-optim-fully-reshardable"]


def test_adam_has_no_flag_of_muon() -> None:
    arguments = engine_arguments(resolved())
    assert not any(value for name, value in arguments.items() if "muon" in name)
    assert arguments["optimizer"] is None


def test_layer_wise_muon_runs_as_muon_on_cpu_and_says_so() -> None:
    plan = resolved(MUON, "parallelism.sharding=optimizer")
    assert engine_arguments(plan)["use-distributed-optimizer"] is True
    arguments = MEGATRON.trial_arguments(plan, Trial("", "", mock_tokenizer=True))
    assert arguments["use-distributed-optimizer"] is None
    # The engine gathers in the background only what is shared.
    assert engine_arguments(plan)["overlap-param-gather"] is True
    assert arguments["overlap-param-gather"] is None
    muon = "sharing Muon's states over the data-parallel ranks"
    assert muon in not_proven(plan)
    assert muon not in not_proven(resolved())
    assert not_proven(resolved())[: len(NOT_PROVEN)] == NOT_PROVEN


def test_muon_needs_its_package_on_gpus() -> None:
    assert "emerging_optimizers" in MEGATRON.gpu_packages(resolved(MUON))
    assert "emerging_optimizers" not in MEGATRON.gpu_packages(resolved())
