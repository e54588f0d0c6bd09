# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The pages about platforms, about documents that people come from, and about what was tested."""

import re
from pathlib import Path

import pytest

from docs.tools.page_blocks import all_pages, blocks_of
from docs.tools.page_parts import ROOT

CODE = re.compile(r"\bST-[A-Z]+-[0-9]{3}\b")
CITED = re.compile(r"`((?:tests|scripts|benchmarks|backtest|charts|docs|src)/[\w./-]+)`")
PLATFORMS = sorted((ROOT / "docs/platforms").glob("*.md"))
COMING_FROM = sorted((ROOT / "docs/coming-from").glob("*.md"))
BY_HAND = [*PLATFORMS, *COMING_FROM, ROOT / "docs/tested.md"]


def name_of(value: object) -> str:
    return value.name if isinstance(value, Path) else str(value)


FOR_ALL = {"index", "tenancy", "air-gapped", "upgrading"}
"""Pages that are not about one platform."""


def test_there_is_a_page_for_each_platform() -> None:
    pages = {page.stem for page in PLATFORMS}
    assert pages - FOR_ALL == {"aks", "eks", "hyperpod", "gke", "onprem", "one-host"}
    assert pages >= FOR_ALL


@pytest.mark.parametrize("page", BY_HAND, ids=name_of)
def test_codes_on_pages_exist(page: Path) -> None:
    known = set(CODE.findall((ROOT / "docs/reference/findings.md").read_text(encoding="utf-8")))
    assert known
    assert set(CODE.findall(page.read_text(encoding="utf-8"))) <= known


@pytest.mark.parametrize("page", BY_HAND, ids=name_of)
def test_files_that_pages_cite_exist(page: Path) -> None:
    cited = CITED.findall(page.read_text(encoding="utf-8"))
    assert [path for path in cited if not (ROOT / path).exists()] == []
    if page.name == "tested.md":
        assert len(cited) > 20


@pytest.mark.parametrize(
    "page", [page for page in PLATFORMS if page.stem not in {*FOR_ALL, "one-host"}], ids=name_of
)
def test_a_platform_has_a_chart_a_run_and_manifests(page: Path) -> None:
    blocks = blocks_of(page)
    assert any("values.yaml" in block.text for block in blocks if ":caption:" in block.text)
    assert any(block.marker and block.marker.kind == "manifest" for block in blocks)
    assert any("$ seatrial launch" in block.text for block in blocks)
    text = page.read_text(encoding="utf-8")
    for heading in ("Cluster setup", "Submit a run", "Generated manifests", "Troubleshooting"):
        assert re.search(rf"^## {heading}", text, re.MULTILINE), heading


MOST_COMMANDS, MOST_VALUES = 4, 8
OTHERS = re.compile(r"`(?:docker|podman|kubectl|helm|aws|az|gcloud|pip)\b|your registry")
"""A step that Seatrial does not take, in the last column of a comparison of commands."""


def flow_of(page: Path) -> tuple[str, ...]:
    """Count a page's steps: the document's, those with Seatrial, and those left to other tools."""
    text = page.read_text(encoding="utf-8")
    ours = text.partition("## Steps with Seatrial")[2].partition("\n## ")[0]
    commands = re.findall(r"^\$ (seatrial .+)$", ours, re.MULTILINE)
    edited = re.findall(r"<!-- edit: .*?-->\n```text\n(.*?)```", ours, re.DOTALL)
    values = sum(len(block.splitlines()) for block in edited)
    values += sum(word.count("=") for command in commands for word in command.split())
    table = text.partition("## Command comparison")[2].partition("\n## ")[0]
    rows = [line.replace("\\|", "") for line in table.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in rows]
    theirs = [len(cells), sum(", once)" in row[0] for row in cells)]
    outside = [row for row in cells if OTHERS.search(row[-1])]
    each_run = sum(", once)" not in row[0] for row in outside)
    assert len(commands) <= MOST_COMMANDS, commands
    assert values <= MOST_VALUES, edited
    assert each_run == 0, outside
    counts = (theirs[0] - theirs[1], theirs[1], len(commands), values, each_run, len(outside))
    title = text.partition("# From ")[2].partition("\n")[0]
    return (f"[{title}]({page.name})", *map(str, counts))


def test_the_flow_of_each_document_is_short_and_counted_on_the_index_page() -> None:
    pages = [page for page in COMING_FROM if page.stem != "index"]
    rows = [f"| {' | '.join(flow_of(page))} |" for page in pages]
    print("\n".join(rows))  # noqa: T201
    index = (ROOT / "docs/coming-from/index.md").read_text(encoding="utf-8")
    shown = [line for line in index.splitlines() if line.startswith("| [")]
    assert shown == rows


MADE = re.compile(
    r"<!-- (?P<name>[a-z][a-z -]*) -->(?P<made>(?:(?!<!--).)*)<!-- end -->", re.DOTALL
)
"""A part of a page that a script writes, between its name and its end."""


def is_empty(made: str) -> bool:
    """Whether a part has nothing in it, or is a table with a head alone."""
    rows = [line for line in made.splitlines() if line.startswith("|")]
    return not made.strip() or 0 < len(rows) <= 2


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("", True),
        ("\n\n", True),
        ("\n| a |\n|---|\n", True),
        ("\n| a |\n|---|\n| 1 |\n", False),
        ("4 values", False),
    ],
)
def test_a_part_with_nothing_in_it_is_noticed(made: str, expected: bool) -> None:
    assert is_empty(made) is expected


def test_what_scripts_write_into_pages_is_there() -> None:
    found = 0
    for page in all_pages():
        text = page.read_text(encoding="utf-8")
        parts = list(MADE.finditer(text))
        assert len(parts) == text.count("<!-- end -->"), page
        assert [part["name"] for part in parts if is_empty(part["made"])] == [], page
        found += len(parts)
    assert found
