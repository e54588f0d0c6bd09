# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Manifests as YAML that every parser reads the same way.

kubectl and Helm read YAML 1.1, for which `on`, `1_000` and `02:00` are no texts. So a text stands
in quotes, as in JSON, unless it cannot be taken for anything else. A general writer would need the
same rule put into it, and took 0.4 s for a run of which this makes 0.01 s.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from seatrial.rendering.manifest import Manifest
from seatrial.rendering.render import Rendering
from seatrial.yaml_scalars import scalar


@dataclass(frozen=True, slots=True)
class Expression:
    """A value that another program, such as Helm, computes: it stands in a manifest as this object.

    No text of a run can be taken for one, whatever it says.
    """

    code: str
    """What that program reads."""


_Line = tuple[str, str]
"""YAML, and the code of the expression that follows it on the line, or an empty text."""


def yaml_text(manifest: Manifest, escape: Callable[[str], str] = str) -> str:
    """One manifest as a document, without the line of dashes.

    `escape` makes YAML that is no expression safe from the program that computes expressions.
    """
    return "".join(f"{escape(text)}{code}\n" for text, code in _block(manifest, ""))


def yaml_documents(manifests: Iterable[Manifest]) -> str:
    """Several manifests as one stream, each after a line of dashes."""
    return "".join(f"---\n{yaml_text(manifest)}" for manifest in manifests)


def _block(value: Any, indent: str) -> Iterator[_Line]:
    """The lines of a mapping or a list that is not empty."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _entry(f"{indent}{scalar(str(key))}:", below, indent)
    else:
        for below in value:
            inner = list(_block(below, f"{indent}  ")) if _has_lines(below) else []
            if inner:
                first, code = inner[0]
                yield f"{indent}- {first.removeprefix(f'{indent}  ')}", code
                yield from inner[1:]
            else:
                yield _value(f"{indent}-", below)


def _entry(head: str, value: Any, indent: str) -> Iterator[_Line]:
    """The lines of a key and what belongs to it."""
    if _has_lines(value):
        yield head, ""
        # A list begins under its key, as kubectl writes it.
        yield from _block(value, f"{indent}  " if isinstance(value, dict) else indent)
    elif isinstance(value, str) and _fits_block(value):
        yield f"{head} |", ""
        yield from ((f"{indent}  {line}" if line else "", "") for line in value.splitlines())
    else:
        yield _value(head, value)


def _value(head: str, value: Any) -> _Line:
    """The line of a key or a hyphen, and a value that needs no line of its own."""
    if isinstance(value, Expression):
        return f"{head} ", value.code
    return f"{head} {scalar(value)}", ""


def _has_lines(value: Any) -> bool:
    return isinstance(value, dict | list | tuple) and len(value) > 0


def _fits_block(text: str) -> bool:
    """Whether a text of several lines can stand as it is, line by line."""
    if not text.endswith("\n") or text.endswith("\n\n") or text.count("\n") < 2:
        return False
    lines = text[:-1].split("\n")
    # Parsers take the indentation of the first line that is not empty for that of the block.
    return lines[0][:1] not in ("", " ") and all(
        line.isprintable() and line == line.rstrip() for line in lines
    )


KUSTOMIZATION = "kustomization.yaml"


def rendering_files(rendering: Rendering) -> dict[str, str]:
    """Each manifest in a file of its own, numbered in the order in which they are to be made."""
    files = {
        file_name(number, manifest): yaml_text(manifest)
        for number, manifest in enumerate(rendering.manifests, start=1)
    }
    kustomization: Manifest = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        # kustomize would put kinds that it does not know last; the order here is meant.
        "sortOptions": {"order": "fifo"},
        "resources": list(files),
    }
    return files | {KUSTOMIZATION: yaml_text(kustomization)}


def file_name(number: int, manifest: Manifest) -> str:
    """`08-pytorchjob-slim-7b.yaml`."""
    return f"{number:02}-{manifest['kind'].lower()}-{manifest['metadata']['name']}.yaml"
