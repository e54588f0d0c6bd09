# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The pages about platforms, about documents that people come from, and about what was tested."""

import re
from pathlib import Path

import pytest

from scripts.count_flow import (
    DIRECTORY,
    MOST_COMMANDS,
    MOST_VALUES,
    Document,
    Tried,
    documents,
    quickstart_commands,
    values_of,
    written,
)
from scripts.count_flow import PLATFORMS as PLATFORM_PAGES
from scripts.page_blocks import ROOT, Proof, all_pages, blocks_of
from seatrial.recipes.shipped import recipe_names
from seatrial.spec.fields import all_fields

CODE = re.compile(r"\bST-[A-Z]+-[0-9]{3}\b")
CITED = re.compile(r"`((?:tests|scripts|charts|docs|src)/[\w./-]+)`")
PLATFORMS = sorted(PLATFORM_PAGES.glob("*.md"))
BY_HAND = [*PLATFORMS, *DIRECTORY.glob("*.md"), *DIRECTORY.glob("*.toml"), ROOT / "docs/tested.md"]
DOCUMENTS = documents()


def name_of(value: object) -> str:
    return value.name if isinstance(value, Path | Document) else str(value)


def test_there_is_a_page_for_each_platform_and_each_document() -> None:
    assert {page.stem for page in PLATFORMS} == {
        "index",
        "aks",
        "eks",
        "hyperpod",
        "gke",
        "one-host",
    }
    assert len(DOCUMENTS) == 5


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
    "page", [page for page in PLATFORMS if page.stem not in ("index", "one-host")], ids=name_of
)
def test_a_platform_has_a_chart_a_run_and_manifests(page: Path) -> None:
    blocks = blocks_of(page)
    assert any("values.yaml" in block.text for block in blocks if block.proof is Proof.FILE)
    assert any(block.marker and block.marker.kind == "manifest" for block in blocks)
    assert any("$ seatrial launch" in block.text for block in blocks)
    text = page.read_text(encoding="utf-8")
    for heading in ("Once", "For every run", "What the cluster is given", "What goes wrong here"):
        assert re.search(rf"^## {heading}", text, re.MULTILINE), heading


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


def test_what_was_counted_stands_on_the_pages() -> None:
    stale = [
        path.name for path, text in written().items() if path.read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run: python -m scripts.count_flow"


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_a_run_asks_little_of_its_user(document: Document) -> None:
    ours = document.ours
    assert 0 < ours.commands <= MOST_COMMANDS
    assert 0 < ours.values <= MOST_VALUES


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_no_command_of_a_flow_ends_in_an_error(document: Document) -> None:
    assert document.ours.broken == 0


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_command_of_a_flow_is_tried_by_somebody(document: Document) -> None:
    assert document.tried(Tried.NOT) == 0
    assert document.tried(Tried.PAGE) > 0
    assert sum(map(document.tried, Tried)) == len(document.steps())


@pytest.mark.parametrize(
    ("above", "who"),
    [
        ("", Tried.PAGE),
        ("<!-- stand-in cluster: nothing yet -->\n", Tried.PAGE),
        ("<!-- executed by: tests/engine/test_launch.py -->\n", Tried.TEST),
        ("<!-- executed by: scripts/shown_run.py -->\n", Tried.NOT),
        ("<!-- not executed: needs a GPU -->\n", Tried.NOT),
    ],
)
def test_who_tries_a_command_is_read_from_its_block(above: str, who: Tried, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{above}```console\n$ seatrial launch run.yaml\n```\n", encoding="utf-8")
    assert [Tried.of(block) for block in blocks_of(page)] == [who]


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_what_is_done_once_is_read_from_the_platforms_page(document: Document) -> None:
    once = document.once()
    page = PLATFORM_PAGES / f"{document.facts['platform']}.md"
    assert once[0] in page.read_text(encoding="utf-8")
    images = sum(field.endswith("image") for field in document.edits())
    assert sum(command.startswith("docker build ") for command in once) == images


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_a_list_names_a_recipe_and_fields_that_exist(document: Document) -> None:
    assert document.facts["recipe"] in recipe_names()
    assert document.facts["recipe"] in document.page.read_text(encoding="utf-8")
    fields = {re.sub(r"\[\]", "", field.name) for field in all_fields().values()}
    edits = [re.sub(r"\[[0-9]+\]", "", path) for path in document.edits()]
    assert edits
    assert [path for path in edits if path not in fields] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_every_defect_has_a_code_or_a_reason(document: Document) -> None:
    for defect in document.facts["defect"]:
        said = defect["here"]
        assert CODE.search(said) or len(said.split()) > 4, said


@pytest.mark.parametrize(
    ("command", "values"),
    [
        ("seatrial recipes copy NAME run.yaml", ["NAME"]),
        ("seatrial data prepare run.yaml --on kubernetes", ["kubernetes"]),
        ("seatrial launch run.yaml a.b=1 --yes", ["a.b=1"]),
        ("seatrial init --nodes 2 --tokens 10B", ["2", "10B"]),
    ],
)
def test_values_of_a_command_are_counted(command: str, values: list[str]) -> None:
    assert values_of(command) == values


def test_the_quickstart_asks_for_few_commands_and_values() -> None:
    commands = quickstart_commands()
    assert 1 < len(commands) <= MOST_COMMANDS
    assert sum(len(values_of(command)) for command in commands) <= MOST_VALUES
