# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The SDK's functions: overrides as a list and as a mapping."""

from pathlib import Path
from typing import Any

import pytest

import seatrial
from tests.unit.planning.search.asked import OPEN


def test_overrides_are_a_list_or_a_mapping(spec_file: Path) -> None:
    listed = seatrial.plan(spec_file, ["cluster.nodes=4", "training.learning_rate.peak=1.0e-5"])
    mapped = seatrial.plan(spec_file, {"cluster.nodes": 4, "training.learning_rate.peak": 1e-5})
    assert listed == mapped
    assert mapped.schedule.peak == 1e-5
    other = seatrial.load_spec(
        spec_file, {"data.mock": None, "data.sources": [{"from": "/a: b"}], "description": "ä"}
    )
    assert other.data.sources is not None
    assert (other.data.sources[0].from_, other.description) == ("/a: b", "ä")


@pytest.mark.parametrize("overrides", ["cluster.nodes=4", [4], [("cluster.nodes", 4)]])
def test_other_overrides_are_refused_with_an_example(spec_file: Path, overrides: Any) -> None:
    with pytest.raises(seatrial.UsageError, match=r'Use \["cluster\.nodes=4"\] or \{'):
        seatrial.validate(spec_file, overrides)


def test_the_planner_fills_what_is_auto_and_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "open.yaml"
    file.write_text(OPEN)
    plan = seatrial.plan(file)
    assert plan.origins["parallelism.tp_size"] == "planner"
    assert plan.layout.world_size == 16
    assert list(tmp_path.iterdir()) == [file]
    checked = seatrial.validate(file)
    assert (checked.plan.digest, checked.findings) == (plan.digest, ())
    assert list(tmp_path.iterdir()) == [file]
