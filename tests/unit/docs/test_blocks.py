# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Every code block of the pages is run, checked, or says why it is not."""

import ast
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from ruamel.yaml import YAML

from docs.tools.manifest_excerpts import excerpt
from docs.tools.page_blocks import (
    Block,
    Marker,
    all_pages,
    blocks_of,
    hold_to_exit_codes,
    marker_before,
)
from docs.tools.page_parts import ROOT
from seatrial.checks.cluster import parsing
from seatrial.cluster.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR
from seatrial.errors import FindingsError
from seatrial.spec.loader import loads
from tests.unit.rendering.scenes import every_combination

BLOCKS = [block for page in all_pages() for block in blocks_of(page)]
DATA = ("yaml", "toml", "json")
CHART = ROOT / "charts/seatrial"
SCRIPTS = ("scripts/check_wheel.sh", "benchmarks/quickstart.py")
"""Scripts that install as the pages say: the first is part of CI, the second types the page."""
LARGEST_SHARE = 0.1
"""How many blocks may be left without anything that runs them."""
BASE = {
    "apiVersion": "seatrial.dev/v1alpha1",
    "name": "fragment",
    "model": {"preset": "gpt3-125m"},
    "data": {"mock": True},
    "training": {"steps": 10},
    "cluster": {"profile": "eks"},
}
"""A spec that fragments are put into."""


def is_file(block: Block) -> bool:
    return block.language.startswith("{code-block}") and ":caption:" in block.text


def is_typed(block: Block) -> bool:
    """Whether a reader would type or write it; output and plain text need no proof."""
    if block.marker is not None or block.language in ("console", "pycon", "bash", "python", *DATA):
        return True
    is_command = block.language == "text" and re.search(r"^\$ ", block.text, re.MULTILINE)
    return is_file(block) or bool(is_command)


def has_proof(block: Block) -> bool:
    """Whether something runs or checks it, or a comment above it says why not."""
    if block.marker is not None or block.language in ("console", "pycon", *DATA):
        return True
    return is_file(block) or block.is_generated


def test_every_block_is_run_or_checked_or_says_why_not() -> None:
    bare = [block.place for block in BLOCKS if is_typed(block) and not has_proof(block)]
    assert bare == [], (
        "nothing runs these blocks: make them ```console, or put <!-- run -->, "
        "<!-- executed by: TEST --> or <!-- not executed: REASON --> above them"
    )


def test_few_blocks_are_not_run() -> None:
    total = sum(map(is_typed, BLOCKS))
    bare = len(marked("not executed")) + sum(is_typed(b) and not has_proof(b) for b in BLOCKS)
    print(f"{bare} of {total} blocks are not run: {100 * bare / total:.1f} %")  # noqa: T201
    assert bare / total <= LARGEST_SHARE


def marked(kind: str) -> list[Block]:
    return [block for block in BLOCKS if block.marker is not None and block.marker.kind == kind]


def value_of(block: Block) -> str:
    return block.marker.value if block.marker else ""


@pytest.mark.parametrize("block", marked("not executed"), ids=lambda block: block.place)
def test_a_reason_is_given(block: Block) -> None:
    assert len(value_of(block).split()) > 1


@pytest.mark.parametrize("block", marked("executed by"), ids=lambda block: block.place)
def test_the_test_that_runs_a_block_exists(block: Block) -> None:
    path, _, function = value_of(block).partition("::")
    file = ROOT / path
    assert file.is_file(), path
    assert path in SCRIPTS or file.name.startswith("test_"), f"{path} is no test"
    if function:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("block", marked("manifest"), ids=lambda block: block.place)
def test_a_manifest_that_is_shown_is_one_that_the_dry_runs_cover(block: Block) -> None:
    shown = excerpt(value_of(block))
    assert (shown.recipe, shown.profile, shown.operator) in every_combination()


def plain_data() -> list[Block]:
    """Data that stands alone: no excerpt, no file of a page, no part of the reference."""
    found = [b for b in BLOCKS if b.language in DATA and b.marker is None and not b.is_generated]
    captioned = [b for b in BLOCKS if is_file(b) and "values.yaml" in b.text]
    return [*found, *captioned]


@pytest.mark.parametrize("block", plain_data(), ids=lambda block: block.place)
def test_data_of_the_pages_are_what_they_seem(block: Block) -> None:
    text = block.text.partition("\n\n")[2] if ":caption:" in block.text else block.text
    if block.language == "json":
        assert json.loads(text)
    elif block.language == "toml":
        assert tomllib.loads(text)
    else:
        known = (is_spec, is_values, is_prometheus, is_queue)
        assert any(is_known(text) for is_known in known), block.place


def is_spec(text: str) -> bool:
    """Whether a fragment is part of a spec."""
    fragment = read(text)
    merged: dict[str, Any] = {**BASE}
    for key, value in fragment.items():
        old = merged.get(key)
        is_section = isinstance(old, dict) and isinstance(value, dict) and key not in ("model",)
        merged[key] = {**old, **value} if is_section and isinstance(old, dict) else value
    if "sources" in merged["data"]:
        merged["data"] = {k: v for k, v in merged["data"].items() if k != "mock"}
    try:
        loads(json.dumps(merged), "fragment.yaml")
    except FindingsError:
        return False
    return True


def is_values(text: str) -> bool:
    """Whether a fragment is values of the chart."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = read((CHART / "values.yaml").read_text(encoding="utf-8"))
    try:
        jsonschema.validate(merge(values, read(text)), schema)
    except jsonschema.ValidationError:
        return False
    return True


def is_prometheus(text: str) -> bool:
    """Whether a fragment is a scrape configuration; nothing more is checked of it."""
    return set(read(text)) == {"scrape_configs"}


def is_queue(text: str) -> bool:
    """Whether a fragment is an object of Kueue that `check --cluster` reads without a gap."""
    found = read(text)
    if found.get("apiVersion") != CLUSTER_QUEUE.api_version:
        return False
    if found["kind"] == CLUSTER_QUEUE.name:
        queue = parsing.cluster_queue(found)
        groups = found["spec"]["resourceGroups"]
        covered = {name for group in groups for name in group["coveredResources"]}
        return set(queue.quota) == covered and all(queue.quota.values())
    if found["kind"] == LOCAL_QUEUE.name:
        return bool(parsing.local_queue(found).cluster_queue)
    return found["kind"] == RESOURCE_FLAVOR.name and bool(parsing.flavor(found).labels)


def merge(old: Any, new: Any) -> Any:
    """Values over the chart's own, as Helm puts them."""
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {key: merge(old.get(key), value) for key, value in new.items()}
    return new


def read(text: str) -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load(text)
    return found


@pytest.mark.parametrize(
    ("above", "expected"),
    [
        ("text\n\n", None),
        ("<!-- run -->\n", Marker("run", "")),
        ("<!-- not executed: needs a cluster -->\n\n", Marker("not executed", "needs a cluster")),
        ("<!-- not executed: needs a cluster -->\n\nMore text.\n", None),
        ("<!-- parity -->\n", None),
        ("<!-- compared, exit 1 2 -->\n", Marker("compared", "", (1, 2))),
        ("<!-- executed by: a/b.py, exit 3 -->\n", Marker("executed by", "a/b.py", (3,))),
        (
            "<!-- stand-in cluster: two pods, one gone -->\n",
            Marker("stand-in cluster", "two pods, one gone"),
        ),
    ],
)
def test_only_a_comment_directly_above_a_block_marks_it(above: str, expected: object) -> None:
    assert marker_before(above) == expected


def test_a_block_that_nothing_runs_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```bash\npip install x\n```\n\n```text\n$ helm install\n```\n", "utf-8")
    blocks = blocks_of(page)
    assert [is_typed(block) and not has_proof(block) for block in blocks] == [True, True]


@pytest.mark.parametrize(
    ("marker", "ended"),
    [
        (None, [0, 0]),
        (Marker("compared", "", (1,)), [0, 1]),
        (Marker("compared", "", (1, 2)), [1, 2]),
    ],
)
def test_commands_may_fail_where_their_block_says_so(marker: Marker, ended: list[int]) -> None:
    hold_to_exit_codes(marker, ["a", "b"], ended)


@pytest.mark.parametrize(
    ("marker", "ended"),
    [
        (None, [0, 1]),
        (Marker("compared", "", (1,)), [0, 0]),
        (Marker("compared", "", (1,)), [1, 1]),
        (Marker("compared", "", (1,)), [0, 2]),
    ],
)
def test_a_command_that_ends_otherwise_ends_everything(marker: Marker, ended: list[int]) -> None:
    with pytest.raises(SystemExit, match="ended with"):
        hold_to_exit_codes(marker, ["a", "b"], ended)


def test_a_wrong_fragment_is_noticed() -> None:
    assert not is_spec("cluster: {nods: 2}")
    assert not is_values("launcher: {subjetcs: []}")
