# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The page about the architecture is true: its picture, its paths, the size of files."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from scripts.draw_imports import PICTURE, PURPOSES, SMALL, drawn, imports, layers
from scripts.page_blocks import ROOT

PAGE = ROOT / "docs/architecture.md"
SOURCES = ROOT / "src/seatrial"
MOST_LINES = 500
MOST_LINES_OF_A_FUNCTION = 60
TARGET = re.compile(r"^([a-z-]+):", re.MULTILINE)


def rows() -> list[list[str]]:
    """The cells of the table of changes."""
    part = PAGE.read_text(encoding="utf-8").partition("## Where to change what")[2]
    table = part.partition("\n## ")[0]
    return [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")][1:]


def paths(cell: str) -> list[str]:
    """What of a cell is a path."""
    return [word for word in re.findall(r"`([^`\s]+)`", cell) if "/" in word or ".py" in word]


def test_the_picture_shows_the_imports_of_today() -> None:
    assert PICTURE.read_text(encoding="utf-8") == drawn(imports()), "run: make import-picture"


def test_the_picture_has_the_layers_that_the_linter_holds() -> None:
    ordered = [name for name in layers() if name in PURPOSES]
    assert [*ordered, SMALL] == list(PURPOSES)
    packages = {file.parent.name for file in SOURCES.glob("*/__init__.py")}
    assert packages <= set(PURPOSES)


def test_an_import_in_the_wrong_direction_would_be_seen() -> None:
    right, wrong = (drawn(Counter({pair: 1})) for pair in (("cli", "spec"), ("spec", "cli")))
    assert "#c0392b" not in right
    assert "#c0392b" in wrong


def test_the_table_leads_to_files_that_exist() -> None:
    found = [path for row in rows() for path in paths(row[1])]
    assert len(found) > 40
    roots = (SOURCES, ROOT)
    assert [path for path in found if not any((root / path).exists() for root in roots)] == []


def test_the_table_names_make_targets_that_exist() -> None:
    known = set(TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    named = set(re.findall(r"`make ([a-z-]+)`", PAGE.read_text(encoding="utf-8")))
    assert "reference" in named
    assert named <= known


@pytest.mark.parametrize("directory", ["src", "tests", "scripts", "docs", "docker"])
def test_no_file_is_too_long(directory: str) -> None:
    code = (".py", ".sh", ".Dockerfile")
    files = [file for file in (ROOT / directory).rglob("*") if file.suffix in code]
    assert files
    assert {
        file.relative_to(ROOT).as_posix(): count
        for file in files
        if (count := lines_of(file)) > MOST_LINES
    } == {}


@pytest.mark.parametrize("directory", ["src", "tests", "scripts", "docs"])
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


def functions_of(text: str) -> list[tuple[str, int]]:
    """The functions of a file, and the lines of each from its `def` on."""
    return [
        (node.name, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def lines_of(file: Path) -> int:
    return len(file.read_bytes().splitlines())
