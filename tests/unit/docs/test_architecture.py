# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The page about the architecture is true: its picture, its paths, the size of files."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from docs.tools.draw_imports import PICTURE, drawn, imports, purposes
from docs.tools.page_parts import ROOT

PAGE = ROOT / "docs/architecture.md"
SOURCES = ROOT / "src/seatrial"
CODE = ["src", "tests", "scripts", "benchmarks", "backtest", "docs"]
MOST_LINES = 500
MOST_LINES_OF_A_FUNCTION = 60
TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)


def paths(cell: str) -> list[str]:
    """What of a cell is a path."""
    return [word for word in re.findall(r"`([^`\s]+)`", cell) if "/" in word or ".py" in word]


def test_the_picture_shows_the_imports_of_today() -> None:
    assert PICTURE.read_text(encoding="utf-8") == drawn(imports()), "run: make import-picture"


def test_the_picture_has_every_package_and_what_it_is_for() -> None:
    packages = {file.parent.name for file in SOURCES.glob("*/__init__.py")}
    assert packages <= set(purposes())
    assert all(purposes().values())


def test_an_import_in_the_wrong_direction_would_be_seen() -> None:
    right, wrong = (drawn(Counter({pair: 1})) for pair in (("cli", "spec"), ("spec", "cli")))
    assert "#c0392b" not in right
    assert "#c0392b" in wrong


def test_the_page_leads_to_files_that_exist() -> None:
    page = PAGE.read_text(encoding="utf-8")
    found = paths(page[page.index("## Five flows") : page.index("## How the documentation")])
    assert len(found) > 60
    roots = (SOURCES, ROOT)
    assert [path for path in found if not any((root / path).exists() for root in roots)] == []


def test_each_flow_has_at_most_eight_steps() -> None:
    page = PAGE.read_text(encoding="utf-8")
    flows = page[page.index("## Five flows") : page.index("## Where to change what")]
    steps = [int(number) for number in re.findall(r"^(\d+)\. ", flows, re.MULTILINE)]
    assert steps.count(1) == 5
    assert max(steps) <= 8


def test_the_page_names_make_targets_that_exist() -> None:
    known = set(TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    named = set(re.findall(r"`make ([a-z-]+)`", PAGE.read_text(encoding="utf-8")))
    assert "reference" in named
    assert named <= known


@pytest.mark.parametrize("directory", [*CODE, "docker"])
def test_no_file_is_too_long(directory: str) -> None:
    kinds = (".py", ".sh", ".Dockerfile")
    files = [file for file in (ROOT / directory).rglob("*") if file.suffix in kinds]
    assert files
    assert {
        file.relative_to(ROOT).as_posix(): count
        for file in files
        if (count := lines_of(file)) > MOST_LINES
    } == {}


@pytest.mark.parametrize("directory", CODE)
def test_no_function_is_too_long(directory: str) -> None:
    files = list((ROOT / directory).rglob("*.py"))
    assert files
    assert {
        f"{file.relative_to(ROOT).as_posix()} {name}": lines
        for file in files
        for name, lines in functions_of(file.read_text(encoding="utf-8"))
        if lines > MOST_LINES_OF_A_FUNCTION
    } == {}


def test_the_lines_of_a_function_are_counted() -> None:
    text = "@app.command()\ndef one():\n    def two():\n        pass\n\n    return two\n"
    assert functions_of(text) == [("one", 5), ("two", 2)]


UNPICKLE = {
    "src/seatrial/worker/checkpointing/safe_load.py",
    # Lists what the loader replaces in torch.
    "src/seatrial/worker/megatron/engine_patches.py",
}
UNPICKLERS = {"pickle", "_pickle", "cPickle", "zipfile", "marshal", "shelve", "dill", "Unpickler"}


def test_nothing_reaches_an_unpickler_in_a_way_that_the_linter_does_not_see() -> None:
    """The linter sees imports, not `filesystem.pickle` nor `import_module("pickle")`."""
    assert hidden_unpicklers("x.pickle.load(f)\nimport_module('zipfile')") == {"pickle", "zipfile"}
    found = {
        file.relative_to(ROOT).as_posix(): names
        for file in (ROOT / "src").rglob("*.py")
        if (names := hidden_unpicklers(file.read_text(encoding="utf-8")))
    }
    assert set(found) == UNPICKLE, "load files through seatrial.worker.checkpointing.safe_load"


def hidden_unpicklers(text: str) -> set[str]:
    """Unpicklers that a file takes from another module, or names in a string."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found & UNPICKLERS


def functions_of(text: str) -> list[tuple[str, int]]:
    """The functions of a file, and the lines of each from its `def` on."""
    return [
        (node.name, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def lines_of(file: Path) -> int:
    return len(file.read_bytes().splitlines())
