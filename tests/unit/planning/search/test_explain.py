# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The reasons are those of the figures: what is named is what differs most."""

from dataclasses import replace

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.planning.search.candidates import Priced
from seatrial.planning.search.explain import (
    SlowdownCause,
    broken_neighbours,
    causes,
    loss,
    named,
    times,
    why,
)
from seatrial.planning.timing.breakdown import TimePart
from seatrial.spec.parallelism import Recompute
from tests.unit.planning.search.asked import opened


@pytest.mark.parametrize(
    ("part", "word"),
    [
        (TimePart.TENSOR_PARALLEL, "tp traffic"),
        (TimePart.BUBBLE, "the pipeline bubble"),
        (TimePart.DATA_PARALLEL, "dp traffic"),
        (TimePart.COMPUTE, "compute"),
    ],
)
def test_the_part_that_grew_most_is_named(catalog: Catalog, part: TimePart, word: str) -> None:
    chosen = plan_run(resolve_basis(opened(), catalog)).chosen
    assert chosen is not None
    parts = dict(chosen.time.parts)
    parts[part] += 0.25 * chosen.time.total
    other = replace(chosen, time=replace(chosen.time, parts=parts))
    assert [cause.lost for cause in causes(other, chosen)] == [word]
    assert loss(chosen, other) == f"{named(other.candidate)} loses 20 % to {word}"
    (found,) = causes(other, chosen)
    assert loss(other, chosen) == f"{named(other.candidate)} gains 25 % from {found.saved}"
    assert loss(chosen, chosen) == f"{named(chosen.candidate)} is equally fast"


def test_recomputing_is_named_as_such(catalog: Catalog) -> None:
    run = plan_run(resolve_basis(opened("parallelism.recompute=none"), catalog))
    assert run.chosen is not None
    heavier = replace(
        run.chosen,
        candidate=replace(run.chosen.candidate, recompute=Recompute.FULL),
        time=replace(
            run.chosen.time,
            parts=dict(run.chosen.time.parts)
            | {TimePart.COMPUTE: 1.3 * run.chosen.time.parts[TimePart.COMPUTE]},
        ),
    )
    assert causes(heavier, run.chosen) == [SlowdownCause.RECOMPUTE]


def changed(chosen: Priced, stages: tuple[float, ...], **parts: float) -> Priced:
    """The layout with other stages, and more seconds in some parts of the step."""
    own = dict(chosen.time.parts)
    for name, seconds in parts.items():
        own[TimePart(name.replace("_", "-"))] += seconds
    return replace(chosen, time=replace(chosen.time, parts=own, stages=stages))


def test_a_slow_last_stage_is_no_slower_product(catalog: Catalog) -> None:
    chosen = plan_run(resolve_basis(opened("parallelism.pp_size=2"), catalog)).chosen
    assert chosen is not None
    even = (1.0, 1.0)
    level = changed(chosen, even)
    # The last stage takes longer by the logits; the slowest stage sets the pace of the step.
    excess = 0.3 * chosen.workload.micro_batches
    uneven = changed(level, (1.0, 1.3), compute=excess / 2, bubble=0.1)
    assert causes(uneven, level) == [SlowdownCause.UNEVEN]
    assert "uneven stages" in loss(level, uneven)
    products = changed(level, (1.3, 1.3), compute=excess)
    assert causes(products, level) == [SlowdownCause.COMPUTE]


def test_two_parts_that_cost_alike_are_both_named(catalog: Catalog) -> None:
    chosen = plan_run(resolve_basis(opened(), catalog)).chosen
    assert chosen is not None
    stages = chosen.time.stages
    both = changed(chosen, stages, bubble=1.0, data_parallel=0.8)
    assert loss(chosen, both).endswith("to the pipeline bubble and dp traffic")
    one = changed(chosen, stages, bubble=1.0, data_parallel=0.3)
    assert loss(chosen, one).endswith("to the pipeline bubble")


def test_products_are_slower_only_where_matrices_are_smaller(catalog: Catalog) -> None:
    chosen = plan_run(resolve_basis(opened("training.micro_batch_size=2"), catalog)).chosen
    assert chosen is not None
    slow = changed(chosen, chosen.time.stages, compute=2.0)
    assert causes(slow, chosen) == [SlowdownCause.COMPUTE]
    small = replace(slow, candidate=replace(slow.candidate, micro_batch_size=1))
    assert causes(small, chosen) == [SlowdownCause.MATRICES]


def test_the_next_two_and_what_lacks_memory_are_named(catalog: Catalog) -> None:
    run = plan_run(resolve_basis(opened(), catalog))
    assert run.chosen is not None
    assert run.outcome is not None
    said = why(run.chosen, run.outcome, run.problem)
    assert len(said) == 3
    for words, other in zip(said, run.outcome.ranked[1:3], strict=False):
        assert words.startswith(named(other.candidate))
    assert said[2].endswith(" GiB")


def test_the_rule_that_a_further_division_breaks_is_named(catalog: Catalog) -> None:
    run = plan_run(resolve_basis(opened("parallelism.tp_size=8", "parallelism.pp_size=2"), catalog))
    assert run.chosen is not None
    assert run.outcome is not None
    assert broken_neighbours(run.chosen, run.problem) == [
        "tp 16 needs 32 GPUs",
        "pp 4 needs 32 GPUs",
    ]
    assert why(run.chosen, run.outcome, run.problem)[-1] == "tp 16 needs 32 GPUs"
    three = plan_run(
        resolve_basis(
            opened("parallelism.tp_size=8", "parallelism.pp_size=1", "cluster.nodes=3"), catalog
        )
    )
    assert three.chosen is not None
    assert broken_neighbours(three.chosen, three.problem) == [
        "tp 16 is invalid: 24 ranks are not divisible by tp 16 × pp 1 = 16",
        "pp 2 is invalid: 24 ranks are not divisible by tp 8 × pp 2 = 16",
    ]
    heads = plan_run(
        resolve_basis(opened("model.preset=gpt2-xl", "parallelism.tp_size=1"), catalog)
    )
    assert heads.chosen is not None
    assert broken_neighbours(heads.chosen, heads.problem)[0] == (
        "tp 2 is invalid: 25 attention heads are not divisible by tp_size 2"
    )
    # An engine without tp and pp is not told what they could not do.
    without = replace(run.problem, limits=replace(run.problem.limits, splits_model=False))
    assert broken_neighbours(run.chosen, without) == []
    wide = plan_run(resolve_basis(opened("parallelism.tp_size=8", "cluster.nodes=4"), catalog))
    assert wide.chosen is not None
    assert "tp 16 exceeds the 8 GPUs on NVLink" in broken_neighbours(wide.chosen, wide.problem)


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (4.26, "is 4.3 times as fast"),
        (1.234, "is 23 % faster"),
        (1.001, "is equally fast"),
        (0.9, "is 10 % slower"),
        (0.25, "takes 4.0 times as long"),
    ],
)
def test_speeds_are_compared_in_words(ratio: float, words: str) -> None:
    assert times(ratio) == words
