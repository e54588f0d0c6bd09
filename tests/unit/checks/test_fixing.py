# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Overrides in the text of a spec: what changes, and what does not."""

from pathlib import Path

import pytest

from seatrial.checks.fixing import applied
from seatrial.spec.loader import loads

RECIPES = sorted(
    (Path(__file__).parents[3] / "src" / "seatrial" / "recipes" / "data").glob("*.yaml")
)
TEXT = """\
# What the run is for.
name: example   # ours
training:
  # a step
  global_batch_size: 1000   # too odd
  steps: 10
data:
  split: [98, 2, 0]
  sources:
    - prepared: "/data/a"   # first
      weight: 1.0
cluster: {profile: eks, env: {NCCL_ALGO: Ring, NCCL_DEBUG: INFO}}
"""


def test_a_value_is_replaced_and_everything_else_stays() -> None:
    new = applied(TEXT, ["training.global_batch_size=1024"])
    assert new == TEXT.replace("1000   # too odd", "1024   # too odd")


def test_a_field_that_is_set_to_null_is_removed() -> None:
    new = applied(TEXT, ["data.sources[0].weight=null"])
    assert new == TEXT.replace("      weight: 1.0\n", "")


def test_lists_and_sections_are_written_in_one_line() -> None:
    new = applied(TEXT, ["data.split=[90, 10, 0]", 'cluster.env={"NCCL_DEBUG": "INFO"}'])
    assert "  split: [90, 10, 0]\n" in new
    assert "env: {NCCL_DEBUG: INFO}}" in new


def test_a_section_is_made_where_there_is_none() -> None:
    new = applied(TEXT, ["checkpoints.every_steps=100"])
    assert new == f"{TEXT}checkpoints:\n  every_steps: 100\n"


def test_a_section_that_becomes_empty_is_removed() -> None:
    assert "env" not in applied(TEXT, ["cluster.env={}"])


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_changes_in_one_line_only(recipe: Path) -> None:
    text = recipe.read_text()
    new = applied(text, ["name=another"])
    differ = [
        pair for pair in zip(text.splitlines(), new.splitlines(), strict=True) if len(set(pair)) > 1
    ]
    assert [after for _, after in differ] == ["name: another"]
    assert loads(new, "run.yaml").spec.name == "another"
