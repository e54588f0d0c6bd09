# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""No pattern lets a trailing newline pass: in Python `$` also matches before one."""

import ast
from pathlib import Path

import pytest

import seatrial

SOURCES = sorted(Path(seatrial.__file__).parent.rglob("*.py"))


def anchored_patterns(source: str) -> list[str]:
    """The patterns of `re` that are written as `^...$` where `fullmatch` is meant."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [
        call.args[0].value
        for call in calls
        if ast.unparse(call.func).startswith("re.")
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
        and call.args[0].value.startswith("^")
        and call.args[0].value.endswith("$")
        and "MULTILINE" not in ast.unparse(call)
    ]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_whole_texts_are_matched_by_fullmatch(path: Path) -> None:
    assert anchored_patterns(path.read_text(encoding="utf-8")) == []


def test_a_pattern_between_anchors_would_be_found() -> None:
    assert anchored_patterns('re.compile(r"^[a-z]+$")') == ["^[a-z]+$"]
    assert anchored_patterns('re.compile(r"[a-z]+")') == []
