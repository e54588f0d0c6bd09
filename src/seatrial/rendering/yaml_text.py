# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Manifests as YAML that every parser reads the same way.

kubectl and Helm read YAML 1.1, for which `on`, `1_000` and `02:00` are no texts. So a text stands
in quotes, as in JSON, unless it cannot be taken for anything else. A general writer would need the
same rule put into it, and took 0.4 s for a run of which this makes 0.01 s.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from seatrial.rendering.manifest import Manifest

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_WORDS = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null"))
"""What a parser takes for something else than a text."""
_HALVES = re.compile(r"\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}")


def yaml_text(manifest: Manifest) -> str:
    """One manifest as a document, without the line of dashes."""
    return "\n".join(_block(manifest, "")) + "\n"


def yaml_documents(manifests: Iterable[Manifest]) -> str:
    """Several manifests as one stream, each after a line of dashes."""
    return "".join(f"---\n{yaml_text(manifest)}" for manifest in manifests)


def _block(value: Any, indent: str) -> Iterator[str]:
    """The lines of a mapping or a list that is not empty."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _entry(f"{indent}{_scalar(str(key))}:", below, indent)
    else:
        for below in value:
            inner = list(_block(below, f"{indent}  ")) if _has_lines(below) else []
            if inner:
                yield f"{indent}- {inner[0].removeprefix(f'{indent}  ')}"
                yield from inner[1:]
            else:
                yield f"{indent}- {_scalar(below)}"


def _entry(head: str, value: Any, indent: str) -> Iterator[str]:
    """The lines of a key and what belongs to it."""
    if _has_lines(value):
        yield head
        # A list begins under its key, as kubectl writes it.
        yield from _block(value, f"{indent}  " if isinstance(value, dict) else indent)
    elif isinstance(value, str) and _fits_block(value):
        yield f"{head} |"
        yield from (f"{indent}  {line}" if line else "" for line in value.splitlines())
    else:
        yield f"{head} {_scalar(value)}"


def _has_lines(value: Any) -> bool:
    return isinstance(value, dict | list | tuple) and len(value) > 0


def _fits_block(text: str) -> bool:
    """Whether a text of several lines can stand as it is, line by line."""
    if not text.endswith("\n") or text.endswith("\n\n") or text.count("\n") < 2:
        return False
    lines = text[:-1].split("\n")
    return not lines[0].startswith(" ") and all(
        line.isprintable() and line == line.rstrip() for line in lines
    )


def _scalar(value: Any) -> str:
    """A text, a number, a truth value, or something empty."""
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) is not None and value.lower() not in _WORDS
        return str(value) if plain else _quoted(value)
    return json.dumps(value)


def _quoted(text: str) -> str:
    """The text in quotes, in ASCII: YAML takes fewer characters as they are than JSON does.

    JSON writes a character beyond 16 bits as two halves, which YAML does not put together.
    """
    return _HALVES.sub(lambda pair: f"\\U{ord(json.loads(f'"{pair[0]}"')):08x}", json.dumps(text))
