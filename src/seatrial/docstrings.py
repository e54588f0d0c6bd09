# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Read the docstrings below fields from the source.

Pydantic can read them when it builds a class, but that would parse the source at every start. This
module parses the source only when the docstrings are needed.
"""

import ast
import inspect
import sys
from functools import cache


@cache
def _module_docs(module: str) -> dict[str, dict[str, str]]:
    """Return the docstring below each field, for every class in a module."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    docs: dict[str, dict[str, str]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        fields = docs.setdefault(node.name, {})
        for statement, following in zip(node.body, node.body[1:], strict=False):
            name = _assigned_name(statement)
            text = _string(following)
            if name and text:
                fields[name] = inspect.cleandoc(text)
    return docs


def _assigned_name(statement: ast.stmt) -> str | None:
    """Return the name that a class-level assignment defines."""
    target: ast.expr | None = None
    if isinstance(statement, ast.AnnAssign):
        target = statement.target
    elif isinstance(statement, ast.Assign):
        target = statement.targets[0]
    return target.id if isinstance(target, ast.Name) else None


def _string(statement: ast.stmt) -> str | None:
    """Return the text of a statement that is only a string."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        value = statement.value.value
        return value if isinstance(value, str) else None
    return None


def field_docs(cls: type) -> dict[str, str]:
    """Return the docstring below each field or enum member, including inherited ones."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("seatrial."):
            docs |= _module_docs(base.__module__).get(base.__name__, {})
    return docs
