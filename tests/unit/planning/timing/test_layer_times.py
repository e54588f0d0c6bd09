# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
from dataclasses import fields, replace
from typing import Any

import pytest

from seatrial.planning.layout import RankLayout
from seatrial.planning.timing import step_time as kept
from seatrial.planning.timing.quantities import layer_quantities
from seatrial.planning.timing.rates import Rates
from seatrial.planning.timing.step_time import known_counts, layer_times, pieces, step_time
from seatrial.planning.timing.traffic import stage_counts
from seatrial.planning.workload import Workload
from seatrial.spec.parallelism import Recompute, RecomputeModule, Sharding
from seatrial.spec.training import Precision
from tests.unit.planning.timing.workloads import A100, CONSTANTS, EXPERTS, GPT3, workload

RATES = Rates()
GIVEN = workload(RankLayout(8, 1, 8, 8))
ANOTHER: dict[str, Any] = {
    "model": EXPERTS,
    "sequence_length": 4096,
    "padded_vocab_size": 50304,
    "layout": RankLayout(4, 2, 8, 8),
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
}
"""A different value of every field that a layer's time depends on."""
WITHOUT_EFFECT = {"stages", "sharding", "micro_batches", "gradient_bytes", "stack"} | {
    "hidden_dropout",
    "shard_size",
    # The fitted runs gathered narrow weights where their software did, which no row states.
    "narrow_weights",
}
"""The fields that it does not depend on: what a layer does not see, or sees through `hardware`."""


def test_layouts_that_differ_in_stages_and_copies_share_the_times_of_layers() -> None:
    other = replace(
        workload(RankLayout(8, 1, 32, 2), micro_batches=4), sharding=Sharding.NONE, hardware=A100
    )
    assert layer_times(GIVEN, RATES) is layer_times(other, RATES)


@pytest.mark.parametrize("name", sorted(ANOTHER))
def test_whatever_changes_a_layer_is_computed_anew(name: str) -> None:
    layer_times(GIVEN, RATES)
    changed = replace(GIVEN, **{name: ANOTHER[name]})
    layer = layer_quantities(changed)
    assert layer_times(changed, RATES).layer == layer
    assert layer_times(changed, RATES).times == pieces(layer, RATES)


def test_every_field_of_a_workload_is_in_one_of_the_two_lists() -> None:
    assert {field.name for field in fields(Workload)} == set(ANOTHER) | WITHOUT_EFFECT


def test_other_rates_are_other_times() -> None:
    slower = replace(RATES, matrix=0.4)
    one, other = layer_times(GIVEN, RATES), layer_times(GIVEN, slower)
    assert other.times.dense.total > one.times.dense.total


def test_counts_are_those_of_the_stages() -> None:
    chunked = workload(RankLayout(8, 1, 8, 8, vp_size=3))
    for given in (GIVEN, chunked, replace(GIVEN, model=EXPERTS), GIVEN):
        assert known_counts(given) == stage_counts(given)


def test_what_is_kept_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[object, object] = {}
    counted: dict[object, object] = {}
    monkeypatch.setattr(kept, "MOST", 3)
    monkeypatch.setattr(kept, "_KNOWN", known)
    monkeypatch.setattr(kept, "_COUNTS", counted)
    for size in range(1, 9):
        given = workload(RankLayout(1, 1, 8, 2), GPT3, micro_batch_size=size)
        assert step_time(given, CONSTANTS).total > 0
        assert len(known) <= 3
        assert len(counted) <= 3
