# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The rank groups and stages are the engine's own, as it recorded them."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.planning.layout import DENSE_AXES, EXPERT_AXES, Axis, Layout
from seatrial.planning.stages import stage_sizes, stages_of
from seatrial.spec.parallelism import ParallelismSpec

RECORD = json.loads((Path(__file__).parent / "engine_layouts.json").read_text())


def _label(case: dict[str, Any]) -> str:
    return "-".join(f"{name}{size}" for name, size in case["sizes"].items() if size)


@pytest.mark.parametrize("case", RECORD["layouts"], ids=_label)
def test_groups_are_the_engines(case: dict[str, Any]) -> None:
    layout = Layout(**{f"{axis}_size": size for axis, size in case["sizes"].items()})
    for axes, expected in case["groups"].items():
        together = [Axis(axis) for axis in axes.split("-")]
        found = [list(group) for group in layout.groups(*together)]
        assert found == expected, axes
        assert layout.group_count(*together) == len(expected)


@pytest.mark.parametrize("case", RECORD["stages"], ids=_label)
def test_stages_are_the_engines(case: dict[str, Any]) -> None:
    sizes = case["sizes"]
    counted = {"embedding_as_layer": sizes["embedding"], "loss_as_layer": sizes["loss"]}
    spec = ParallelismSpec(
        first_stage_layers=sizes["first"], last_stage_layers=sizes["last"], **counted
    )
    per_stage = stage_sizes(sizes["layers"], sizes["pp"], spec)
    assert isinstance(per_stage, list)
    stages = stages_of(per_stage, sizes["vp"], **counted)
    assert [[len(chunk) for chunk in stage.chunks] for stage in stages] == case["layers"]
    assert sorted(layer for stage in stages for layer in stage.layers) == list(
        range(sizes["layers"])
    )


def test_chunks_are_dealt_round_the_stages() -> None:
    first, second = stages_of([4, 4], 2)
    assert first.chunks == ((0, 1), (4, 5))
    assert second.chunks == ((2, 3), (6, 7))


SIZE = st.integers(1, 5)


@given(tp=SIZE, cp=SIZE, dp=SIZE, pp=SIZE, data=st.data())
def test_ranks_and_coordinates_are_inverse(
    tp: int, cp: int, dp: int, pp: int, data: st.DataObject
) -> None:
    layout = Layout(tp_size=tp, cp_size=cp, dp_size=dp, pp_size=pp, ep_size=dp)
    rank = data.draw(st.integers(0, layout.world_size - 1))
    for axes in (DENSE_AXES, EXPERT_AXES):
        assert layout.rank(layout.coordinates(rank, axes), axes) == rank


def test_a_rank_outside_the_world_is_refused() -> None:
    with pytest.raises(ValueError, match="world size 8"):
        Layout(tp_size=8, cp_size=1, dp_size=1, pp_size=1).coordinates(8)


def test_a_hundred_thousand_ranks_are_no_work() -> None:
    layout = Layout(tp_size=8, cp_size=1, dp_size=800, pp_size=16)
    assert layout.world_size == 102_400
    assert layout.coordinates(102_399) == {Axis.TP: 7, Axis.CP: 0, Axis.DP: 799, Axis.PP: 15}
    assert next(layout.groups(Axis.PP)) == tuple(range(0, 102_400, 6_400))
