# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import tomllib
from dataclasses import asdict

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.catalog.entry import Kind
from seatrial.planning.layout import Layout
from seatrial.planning.timing.constants import (
    DATA,
    constants_for,
    generation,
    read_table,
    table,
)
from seatrial.planning.timing.step_time import step_time
from seatrial.spec.training import Precision
from tests.unit.planning.timing.workloads import EXPERTS, workload

MEGATRON = "megatron-core"


def test_what_was_fitted_is_taken_as_it_is() -> None:
    found = constants_for("h100-80gb", Precision.BF16, MEGATRON)
    assert "no published run was fitted" not in found.provenance
    assert found.error < table().unseen_error
    assert found.version == table().version


def test_the_version_follows_from_what_is_in_the_file() -> None:
    content = tomllib.loads(DATA.read_text())
    assert read_table(content).version == table().version
    content["fit"][-1]["rates"]["matrix"] *= 1.001
    assert read_table(content).version != table().version


def test_the_memory_of_a_gpu_does_not_make_it_another() -> None:
    dense, experts = constants_for("a100-40gb", Precision.FP16, MEGATRON).provenance.split(
        "; with experts: "
    )
    assert "no published run was fitted" not in dense
    assert " on h100-80gb in " in experts


def test_what_was_not_fitted_is_borrowed_with_a_wider_error() -> None:
    found = constants_for("h200-141gb", Precision.FP8, MEGATRON)
    assert " on h100-80gb in fp8 with " in found.provenance
    assert found.error >= table().unseen_error


@pytest.mark.parametrize("accelerator", ["a100-80gb", "h100-80gb"])
def test_fp32_borrows_from_16_bits_and_has_the_error_of_the_unseen(accelerator: str) -> None:
    half = constants_for(accelerator, Precision.BF16, MEGATRON)
    found = constants_for(accelerator, Precision.FP32, MEGATRON)
    assert found.rates == half.rates
    assert f"no published run was fitted for {accelerator} in fp32" in found.provenance
    assert found.error >= table().unseen_error > half.error
    assert found.error_nine_of_ten >= table().unseen_error_nine_of_ten


def test_the_same_stack_counts_for_more_than_the_same_accelerator() -> None:
    assert "llm-foundry" in constants_for("b200", Precision.BF16, "llm-foundry").provenance


@pytest.mark.parametrize("stack", [MEGATRON, "llm-foundry"])
@pytest.mark.parametrize("precision", list(Precision))
def test_every_accelerator_of_the_catalog_has_constants(precision: Precision, stack: str) -> None:
    for name in Catalog().names(Kind.ACCELERATORS):
        found = constants_for(name, precision, stack)
        assert 0 < found.error < 1
        assert found.provenance


def test_experts_have_rates_and_an_error_of_their_own() -> None:
    found = constants_for("h100-80gb", Precision.BF16, MEGATRON)
    layout = Layout(1, 1, 8, 1, ep_size=8)
    dense, experts = workload(layout), workload(layout, EXPERTS)
    assert found.rates_for(experts) is found.expert_rates
    assert found.rates_for(dense) is found.rates
    assert step_time(experts, found).error == found.expert_error > found.error


def test_rates_of_the_data_file_are_what_rates_can_be() -> None:
    for fit in table().fits:
        for name, value in asdict(fit.rates).items():
            assert 0 < value < 1e5, (fit.stack, name)
        # No product is faster than the peak, and nothing hides more than all.
        shares = (fit.rates.matrix, fit.rates.waves, fit.rates.data_overlap)
        assert max(shares) <= 1


def test_shapes_apply_only_where_they_were_measured() -> None:
    known = constants_for("a100-80gb", Precision.FP16, "megatron-deepspeed-one-node")
    assert known.shapes
    assert known.rates_for(workload(Layout(8, 1, 8, 8))).layer == 1.0


@pytest.mark.parametrize(
    ("accelerator", "number"),
    [("a10g", 0), ("rtx-a6000", 0), ("rtx-4090", 1), ("l40s", 1), ("h100-80gb", 1), ("b200", 2)],
)
def test_a_gpu_is_of_the_generation_that_its_name_says(accelerator: str, number: int) -> None:
    assert generation(accelerator) == number
