# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Overrides in the text of a spec: what changes, and what does not."""

from itertools import cycle
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from seatrial.checks.repairs.yaml_edits import applied
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


def test_a_section_that_is_set_to_null_is_removed() -> None:
    new = applied(TEXT, ["training=null"])
    assert "training" not in new
    assert "global_batch_size" not in new
    assert new.endswith(TEXT[TEXT.index("data:") :])


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


COMMENTED = """\
---
# What the run is for.
training:
    steps: 10      # few

    # a batch
    global_batch_size: 1000
data:
    sources: [{prepared: /data/a}]
cluster:
    env:
        # a first one
        BAR: "1"
        # harmful, from a blog
        NCCL_ALGO: Ring   # or Tree
        # a last one
        FOO: 'two'
    secrets:
        - {secret: a, key: b, env: C}
        # behind the secrets
    nodes: 2
"""


def lines_of(text: str, new: str) -> tuple[list[str], list[str]]:
    """The lines that are gone, and those that have come."""
    old_lines, new_lines = text.splitlines(), new.splitlines()
    gone = [line for line in old_lines if line not in new_lines]
    return gone, [line for line in new_lines if line not in old_lines]


def test_a_key_goes_with_its_own_comments_and_no_others() -> None:
    new = applied(COMMENTED, ['cluster.env={"BAR": "1", "FOO": "two"}'])
    gone = ["        # harmful, from a blog", "        NCCL_ALGO: Ring   # or Tree"]
    assert lines_of(COMMENTED, new) == (gone, [])


def test_a_number_is_a_difference_of_one_line() -> None:
    new = applied(COMMENTED, ["training.global_batch_size=1024"])
    assert new == COMMENTED.replace("1000", "1024")
    crlf = COMMENTED.replace("\n", "\r\n")
    assert applied(crlf, ["training.global_batch_size=1024"]) == crlf.replace("1000", "1024")


@pytest.mark.parametrize(
    ("override", "gone", "come"),
    [
        ("training.steps=20", ["    steps: 10      # few"], ["    steps: 20      # few"]),
        ('cluster.env.BAR="2"', ['        BAR: "1"'], ['        BAR: "2"']),
        ("cluster.env.NEW=three", [], ["        NEW: three"]),
        ("checkpoints.every_steps=5", [], ["checkpoints:", "    every_steps: 5"]),
        (
            "cluster.secrets=[{secret: a, key: b, env: C}, {secret: d, key: e, env: F}]",
            [],
            ["        - {secret: d, key: e, env: F}"],
        ),
        (
            "data.sources[0].weight=1.5",
            ["    sources: [{prepared: /data/a}]"],
            ["    sources: [{prepared: /data/a, weight: 1.5}]"],
        ),
        (
            "cluster.env={ONLY: '1,2'}",
            COMMENTED.splitlines()[10:17],
            ["    env: {ONLY: '1,2'}"],
        ),
        ("cluster.env=null", COMMENTED.splitlines()[10:17], []),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_only_the_lines_of_a_change_differ(override: str, gone: list[str], come: list[str]) -> None:
    new = applied(COMMENTED, [override])
    if override.startswith("cluster.env={"):
        gone = [line for line in gone if line != "    env:"] + ["    env:"]
    assert tuple(map(sorted, lines_of(COMMENTED, new))) == (sorted(gone), sorted(come))


FLOWING = """\
parallelism:
  {tp_size: 4, pp_size: 1,   # of two
   recompute: full}
cluster: {env: {A: '1', B: '2', C: '3'}, nodes: 2,}
data:
checkpoints: {}
"""


@pytest.mark.parametrize(
    ("override", "old", "new"),
    [
        ("cluster.env={A: '1', C: '3'}", "B: '2', ", ""),
        ("cluster.env={A: '1', B: '2'}", ", C: '3'", ""),
        ("cluster.env={B: '2', C: '3'}", "A: '1', ", ""),
        ("cluster.fabric=efa", "nodes: 2,}", "nodes: 2, fabric: efa}"),
        ("parallelism.tp_size=null", "tp_size: 4, ", ""),
        ("parallelism.vp_size=2", "recompute: full}", "recompute: full, vp_size: 2}"),
        ("data.mock=true", "data:\n", "data: {mock: true}\n"),
        ("checkpoints.every_steps=7", "checkpoints: {}", "checkpoints: {every_steps: 7}"),
    ],
)
def test_what_stands_in_brackets_stays_there(override: str, old: str, new: str) -> None:
    assert applied(FLOWING, [override]) == FLOWING.replace(old, new)


def test_a_comment_of_the_entry_before_stays() -> None:
    new = applied(FLOWING, ["parallelism.recompute=null"])
    assert "# of two" in new
    assert "recompute" not in new
    assert YAML(typ="safe", pure=True).load(new)["parallelism"] == {"tp_size": 4, "pp_size": 1}


def test_what_cannot_be_placed_is_written_anew_and_right() -> None:
    text = "a: {b: 1}   # kept\nlist:\n  -\n    x: 1\n"
    new = applied(text, ["list[0].y=2", "a=[1, 2]"])
    assert YAML(typ="safe", pure=True).load(new) == {"a": [1, 2], "list": [{"x": 1, "y": 2}]}


@pytest.mark.parametrize("ends", [("\r\n",), ("\r\n", "\n"), ("\n", "\r\n", "\n")])
@pytest.mark.parametrize(
    "override",
    [
        "training.steps=20",
        "training.steps=null",
        "cluster.env={}",
        "cluster.env.NEW=three",
        "checkpoints.every_steps=5",
        "data.sources=[/data/a]",
    ],
)
def test_lines_that_stay_keep_their_ends(ends: tuple[str, ...], override: str) -> None:
    lines = [f"{line}{end}" for line, end in zip(COMMENTED.splitlines(), cycle(ends), strict=False)]
    new = applied("".join(lines), [override]).splitlines(keepends=True)
    bare = {line.rstrip("\r\n") for line in new}
    stay = [line for line in lines if line.rstrip("\r\n") in bare]
    assert [line for line in new if line in lines] == stay
    assert len(new) - len(stay) <= 2


def test_a_spec_that_is_written_anew_keeps_its_line_ends() -> None:
    text = "a: {b: 1}   # kept\r\nlist:\r\n  -\r\n    x: 1\r\nc: 1\nd: 2\r\n"
    new = applied(text, ["list[0].y=2", "a=[1, 2]"])
    assert new.endswith("c: 1\nd: 2\r\n")
    assert new.count("\n") == new.count("\r\n") + 1
