# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The reasons are those of the figures: what is named is what differs most."""

from dataclasses import replace

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.planning.search.explain import broken_neighbours, cause, loss, named, why
from seatrial.planning.search.planner import plan_run
from seatrial.planning.timing.parts import TimePart
from seatrial.spec.parallelism import Recompute
from tests.unit.planning.search.asked import opened


@pytest.mark.parametrize(
    ("part", "word"),
    [
        (TimePart.TENSOR_PARALLEL, "tp traffic"),
        (TimePart.BUBBLE, "the bubble"),
        (TimePart.DATA_PARALLEL, "dp traffic"),
        (TimePart.COMPUTE, "slower matrix products"),
    ],
)
def test_the_part_that_grew_most_is_named(catalog: Catalog, part: TimePart, word: str) -> None:
    chosen = plan_run(opened(), catalog).chosen
    assert chosen is not None
    parts = dict(chosen.time.parts)
    parts[part] += 0.25 * chosen.time.total
    other = replace(chosen, time=replace(chosen.time, parts=parts))
    assert cause(other, chosen) == word
    assert loss(chosen, other) == f"{named(other.candidate)} loses 20 % to {word}"
    assert loss(other, chosen) == f"{named(other.candidate)} gains 25 % by less of {word}"
    assert loss(chosen, chosen) == f"{named(chosen.candidate)} is as fast"


def test_recomputing_is_named_as_such(catalog: Catalog) -> None:
    run = plan_run(opened("parallelism.recompute=none"), catalog)
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
    assert cause(heavier, run.chosen) == "recomputing"


def test_the_next_two_and_what_lacks_memory_are_named(catalog: Catalog) -> None:
    run = plan_run(opened(), catalog)
    assert run.chosen is not None
    assert run.outcome is not None
    said = why(run.chosen, run.outcome, run.problem)
    assert len(said) == 3
    for words, other in zip(said, run.outcome.ranked[1:3], strict=False):
        assert words.startswith(named(other.candidate))
    assert said[2].endswith(" GiB")


def test_the_rule_that_a_further_division_breaks_is_named(catalog: Catalog) -> None:
    run = plan_run(opened("parallelism.tp_size=8", "parallelism.pp_size=2"), catalog)
    assert run.chosen is not None
    assert run.outcome is not None
    assert broken_neighbours(run.chosen, run.problem) == [
        "tp 16 cannot be: 16 ranks cannot be shared out: tp 16 × pp 2 = 32",
        "pp 4 cannot be: 16 ranks cannot be shared out: tp 8 × pp 4 = 32",
    ]
    assert why(run.chosen, run.outcome, run.problem)[-1].startswith("tp 16 cannot be: ")
    heads = plan_run(opened("model.preset=gpt2-xl", "parallelism.tp_size=1"), catalog)
    assert heads.chosen is not None
    assert broken_neighbours(heads.chosen, heads.problem)[0] == (
        "tp 2 cannot be: 25 attention heads cannot be shared out over tp 2"
    )
    wide = plan_run(opened("parallelism.tp_size=8", "cluster.nodes=4"), catalog)
    assert wide.chosen is not None
    assert "tp 16 leaves the 8 GPUs that NVLink joins" in broken_neighbours(
        wide.chosen, wide.problem
    )
