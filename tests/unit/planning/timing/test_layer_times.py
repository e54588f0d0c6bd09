# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
from dataclasses import fields, replace
from typing import Any

import pytest

from seatrial.planning.layout import Layout
from seatrial.planning.options import Options
from seatrial.planning.timing.quantities import layer_quantities
from seatrial.planning.timing.rates import Rates
from seatrial.planning.timing.step_time import StepTimer, pieces
from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Recompute, RecomputeModule, Sharding
from seatrial.spec.training import Precision
from tests.unit.planning.timing.workloads import A100, CONSTANTS, EXPERTS, workload

RATES = Rates()
GIVEN = workload(Layout(8, 1, 8, 8))
ANOTHER: dict[str, Any] = {
    "model": EXPERTS,
    "sequence_length": 4096,
    "padded_vocab_size": 50304,
    "layout": Layout(4, 2, 8, 8),
    "sequence_parallel": False,
    "recompute": Recompute.FULL,
    "recompute_modules": frozenset([RecomputeModule.MLP]),
    "micro_batch_size": 2,
    "hardware": replace(A100, peak_flops=1e15),
    "flash_attention": False,
    "attention_weights": 1 << 30,
    "attention_share": 0.5,
    "moe_every": 2,
    "precision": Precision.FP32,
    "options": Options(fused_layers=True),
}
"""A different value of every field that a layer's time depends on."""
MADE_FOR = {"model", "hardware"}
"""The fields that are the same for all workloads of a timer."""
WITHOUT_EFFECT = {"stages", "sharding", "micro_batches", "gradient_bytes", "stack"} | {
    "hidden_dropout",
    "shard_size",
    "muon_steps",
    # The fitted runs gathered narrow weights where their software did, which no row states.
    "narrow_weights",
}
"""The fields that it does not depend on: what a layer does not see, or sees through `hardware`."""


def timer(given: Workload = GIVEN) -> StepTimer:
    """A timer for the model and the machines of a workload."""
    return StepTimer(given.model, given.hardware, CONSTANTS)


def test_layouts_that_differ_in_stages_and_copies_share_the_times_of_layers() -> None:
    other = replace(workload(Layout(8, 1, 32, 2), micro_batches=4), sharding=Sharding.NONE)
    own = timer()
    assert own.layer_times(GIVEN, RATES) is own.layer_times(other, RATES)


@pytest.mark.parametrize("name", sorted({*ANOTHER} - MADE_FOR))
def test_whatever_changes_a_layer_is_computed_anew(name: str) -> None:
    own = timer()
    own.layer_times(GIVEN, RATES)
    changed = replace(GIVEN, **{name: ANOTHER[name]})
    layer = layer_quantities(changed)
    assert own.layer_times(changed, RATES).layer == layer
    assert own.layer_times(changed, RATES).times == pieces(layer, RATES)


@pytest.mark.parametrize("name", sorted(MADE_FOR))
def test_a_timer_is_of_one_model_and_one_kind_of_machine(name: str) -> None:
    changed = replace(GIVEN, **{name: ANOTHER[name]})
    with pytest.raises(ValueError, match="a different model or different machines"):
        timer().step_time(changed)


def test_layouts_with_other_options_do_not_share_the_times_of_layers() -> None:
    own = timer()
    fused, plain = (replace(GIVEN, options=Options(fused_layers=on)) for on in (True, False))
    assert own.step_time(fused).total < own.step_time(plain).total
    assert own.step_time(fused) == timer().step_time(fused)


def test_every_field_of_a_workload_is_in_one_of_the_two_lists() -> None:
    assert {field.name for field in fields(Workload)} == set(ANOTHER) | WITHOUT_EFFECT


def test_shapes_that_were_measured_have_their_own_times() -> None:
    own = timer()
    slower = replace(RATES, layer=2.0)
    one, other = own.layer_times(GIVEN, RATES), own.layer_times(GIVEN, slower)
    assert other.times.dense.total > one.times.dense.total
