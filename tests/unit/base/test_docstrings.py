# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Docstrings are there where a reader or a page needs them, and do not repeat a name."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import seatrial

ROOT = Path(seatrial.__file__).parent
SOURCES = sorted(ROOT.rglob("*.py"))
READ_BY_PAGES = ("spec", "catalog", "codes")
"""Packages whose fields and members are explained by their docstrings in the reference."""
SMALL_WORDS = frozenset(("a", "an", "the", "of", "its", "it", "this", "that", "is", "are", "in"))


def modules_without_docstring() -> list[str]:
    """Modules that do not say what they are about; inner packages are empty."""
    found = [path for path in SOURCES if path.parent.parent == ROOT or path.name != "__init__.py"]
    return [str(path) for path in found if not ast.get_docstring(ast.parse(path.read_text()))]


def undocumented_fields(tree: ast.Module) -> Iterator[str]:
    """The public fields of public classes that no docstring follows."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
            continue
        for statement, following in zip(node.body, [*node.body[1:], None], strict=True):
            if not isinstance(statement, ast.AnnAssign):
                continue
            name = ast.unparse(statement.target)
            is_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            if not name.startswith("_") and name != "model_config" and not is_text:
                yield f"{node.name}.{name}"


def repeated_names(tree: ast.Module) -> Iterator[str]:
    """Functions and classes whose docstring has no word that their name has not."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and len(node.body) > 1:
            own = set(re.findall(r"[a-z]+", re.sub(r"([A-Z])", r" \1", node.name).lower()))
            words = re.findall(r"[a-z]+", (ast.get_docstring(node) or "").lower())
            said = set(words) - SMALL_WORDS
            if said and said <= own:
                yield node.name


def test_every_module_says_what_it_is_about() -> None:
    assert modules_without_docstring() == []


@pytest.mark.parametrize("package", READ_BY_PAGES)
def test_what_the_reference_shows_is_explained(package: str) -> None:
    found = {
        f"{path.name}: {name}"
        for path in (ROOT / package).rglob("*.py")
        for name in undocumented_fields(ast.parse(path.read_text()))
    }
    assert found == set()


def test_no_docstring_repeats_a_name() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in SOURCES
        for name in repeated_names(ast.parse(path.read_text()))
    ]
    assert found == []


def test_the_checks_can_fail() -> None:
    text = (
        'class A:\n    """Doc."""\n    x: int\ndef find_run():\n    """Find the run."""\n    pass\n'
    )
    tree = ast.parse(text)
    assert list(undocumented_fields(tree)) == ["A.x"]
    assert list(repeated_names(tree)) == ["find_run"]
