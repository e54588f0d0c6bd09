# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The worker's own messages must not look like evidence: the log that they are in is diagnosed."""

import ast
from collections.abc import Iterator
from pathlib import Path

import seatrial.worker
from seatrial.monitoring.diagnosis.knowledge import knowledge

WORKER = Path(seatrial.worker.__file__).parent
ABOUT_OURSELVES = {"transformer-engine-missing"}
"""Signatures of a message with which the worker itself refuses to start."""


def messages(tree: ast.Module) -> Iterator[str]:
    """Every text in a module that is not a docstring; placeholders count as `x`."""
    docstrings = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    joined = [n for n in ast.walk(tree) if isinstance(n, ast.JoinedStr)]
    inner = {id(part) for whole in joined for part in ast.walk(whole) if part is not whole}
    for node in ast.walk(tree):
        if id(node) in docstrings | inner:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (p.value if isinstance(p, ast.Constant) else "x" for p in node.values)
            yield "".join(map(str, parts))


def test_no_message_of_the_worker_matches_a_signature() -> None:
    texts = {
        text
        for file in WORKER.rglob("*.py")
        for text in messages(ast.parse(file.read_text(encoding="utf-8")))
        if " " in text
    }
    assert len(texts) > 100
    matching = [
        (signature.name, text)
        for signature in knowledge().signatures
        if signature.name not in ABOUT_OURSELVES
        for text in sorted(texts)
        if signature.pattern.search(text)
        and not (signature.unless and signature.unless.search(text))
    ]
    assert matching == []
