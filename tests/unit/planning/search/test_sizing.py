# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The fewest nodes and the largest model are at the edge: a little more does not fit."""

from dataclasses import replace

import pytest

from seatrial.catalog.catalog import Catalog, Kind
from seatrial.planning.parameters import active_parameters, total_parameters
from seatrial.planning.search import problem as problem_module
from seatrial.planning.search import sizing
from seatrial.planning.search.problem import SearchProblem
from seatrial.planning.search.sizing import (
    FINEST,
    Fewest,
    fewest_nodes,
    fits,
    largest_model,
    scaled,
)
from seatrial.planning.search.space import shapes
from seatrial.planning.workload import Hardware
from seatrial.spec.parallelism import Sharding
from tests.unit.planning.search.asked import SMALL_MOE, asked


@pytest.mark.parametrize("model", ["gpt3-39.1b", "llama3-70b", "mixtral-8x7b"])
def test_one_node_fewer_does_not_fit(catalog: Catalog, model: str) -> None:
    problem = asked(catalog, f"model.preset={model}")
    assert problem.hardware is not None
    fewest = fewest_nodes(problem, problem.hardware)
    assert fewest is not None
    assert fewest.nodes > 1
    assert fewest.all_tried
    assert fits(replace(problem, world_size=fewest.nodes * 8), problem.hardware)
    for nodes in range(1, fewest.nodes):
        assert not fits(replace(problem, world_size=nodes * 8), problem.hardware)


@pytest.mark.parametrize(
    ("fitting", "found"),
    [
        ({5, 8}, Fewest(5, True)),
        ({37, 64}, Fewest(37, True)),
        ({70, 100, 128}, Fewest(100, False)),
        ({257, 400, 512}, Fewest(512, False)),
        ({257}, None),
    ],
)
def test_what_was_tried_is_told(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, fitting: set[int], found: Fewest | None
) -> None:
    problem = asked(catalog)
    assert problem.hardware is not None

    def fit(problem: SearchProblem, hardware: Hardware) -> Sharding | None:
        return Sharding.OPTIMIZER if problem.world_size // 8 in fitting else None

    monkeypatch.setattr(sizing, "fits", fit)
    assert fewest_nodes(problem, problem.hardware) == found
    after = fewest_nodes(problem, problem.hardware, above=256)
    assert after == (Fewest(257, True) if 257 in fitting else None)


@pytest.mark.parametrize("model", ["model.preset=gpt3-7.5b", "model.preset=llama3-8b", SMALL_MOE])
def test_a_larger_model_does_not_fit(catalog: Catalog, model: str) -> None:
    problem = asked(catalog, model)
    assert problem.hardware is not None
    largest = largest_model(problem, problem.hardware)
    assert largest is not None
    assert largest.parameters > total_parameters(problem.model, problem.model.vocab_size)
    assert fits(replace(problem, model=largest.architecture), problem.hardware)
    grown = scaled(largest.architecture, 2 ** (8 / FINEST) * 1.1)
    assert not fits(replace(problem, model=grown), problem.hardware)


@pytest.mark.parametrize("name", Catalog().names(Kind.MODELS))
@pytest.mark.parametrize("factor", [0.3, 1.0, 1.7])
def test_a_scaled_model_keeps_its_shape(catalog: Catalog, name: str, factor: float) -> None:
    model = catalog.model(name).architecture
    other = scaled(model, factor)
    assert other.head_dim == model.head_dim
    grouped = model.kv_heads < model.heads
    assert other.kv_heads == (model.kv_heads if grouped else other.heads)
    # Rounded to a width that tp divides, which is 64 at the finest.
    width = model.hidden_size * other.heads / model.heads
    assert other.hidden_size == width or abs(other.hidden_size - width) <= 32
    wanted = model.ffn_hidden_size * other.heads / model.heads
    assert abs(other.ffn_hidden_size - wanted) <= 32


def test_nothing_is_said_of_a_model_that_fits_nowhere(catalog: Catalog) -> None:
    problem = asked(catalog)
    assert problem.hardware is not None
    tiny = replace(problem.hardware, memory_bytes=1 << 30)
    assert fewest_nodes(problem, tiny) is None
    assert largest_model(problem, tiny) is None


def test_what_has_to_be_shared_out_is_told(catalog: Catalog) -> None:
    plenty = asked(catalog)
    assert plenty.hardware is not None
    assert fits(plenty, plenty.hardware) is Sharding.OPTIMIZER
    uncut = asked(catalog, "model.preset=llama2-70b", "cluster.nodes=8", "parallelism.pp_size=1")
    assert fits(uncut, plenty.hardware) is Sharding.FSDP


def test_the_largest_that_was_tried_is_said_to_be_that(catalog: Catalog) -> None:
    problem = asked(catalog)
    assert problem.hardware is not None
    roomy = replace(problem.hardware, memory_bytes=1 << 60)
    largest = largest_model(problem, roomy)
    assert largest is not None
    assert largest.largest_tried
    usual = largest_model(problem, problem.hardware)
    assert usual is not None
    assert not usual.largest_tried


def test_layers_are_counted_once_however_many_layouts_there_are(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = asked(catalog, "cluster.nodes=64")
    counted = []

    def counting(*given: object) -> int:
        counted.append(given)
        return active_parameters(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(problem_module, "active_parameters", counting)
    assert len(list(shapes(problem, Sharding.OPTIMIZER))) > 10
    assert len(counted) == 1
