# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Every public function, class and field says what it is."""

import ast
from pathlib import Path

import pytest

import seatrial

SOURCES = sorted(Path(seatrial.__file__).parent.rglob("*.py"))


def _undocumented(path: Path) -> list[str]:
    """The public names of a module that have no docstring."""
    tree = ast.parse(path.read_text())
    missing = [] if ast.get_docstring(tree) or path.name == "__init__.py" else ["the module"]
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            documented = ast.get_docstring(node) is not None
            if not documented and not _is_nested(tree, node) and not _is_private(tree, node):
                missing.append(node.name)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            missing += _undocumented_fields(node)
    return missing


def _is_nested(tree: ast.Module, node: ast.AST) -> bool:
    """Whether a definition is local to a function."""
    functions = (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n is not node)
    return any(node in ast.walk(function) for function in functions)


def _is_private(tree: ast.Module, node: ast.AST) -> bool:
    """Whether a definition belongs to a class that is nobody else's business."""
    classes = (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and n.name.startswith("_"))
    return any(node in ast.walk(private) for private in classes)


def _undocumented_fields(node: ast.ClassDef) -> list[str]:
    """The public fields of a class that no docstring follows."""
    missing = []
    for statement, following in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            if not name.startswith("_") and name != "model_config" and not text:
                missing.append(f"{node.name}.{name}")
    return missing


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_every_public_name_has_a_docstring(path: Path) -> None:
    assert _undocumented(path) == []


def test_the_check_can_fail(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text('"""Doc."""\nclass A:\n    """Doc."""\n    x: int\ndef f():\n    pass\n')
    assert _undocumented(bad) == ["A.x", "f"]
