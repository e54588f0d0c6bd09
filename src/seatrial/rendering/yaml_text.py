# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Manifests as YAML that every parser reads the same way.

kubectl and Helm read YAML 1.1, in which `on`, `1_000` and `02:00` are not strings. So a string is
quoted, as in JSON, unless it is unambiguous. A general YAML writer would need the same rule, and
took 0.4 s for a run that takes 0.01 s here.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from seatrial.rendering.manifest import Manifest
from seatrial.rendering.render import Rendering
from seatrial.yaml_scalars import scalar


@dataclass(frozen=True, slots=True)
class Expression:
    """A value that another program such as Helm computes, as an object inside a manifest.

    Being an object, it cannot be confused with any text of a run.
    """

    code: str
    """The code for that program."""


_Line = tuple[str, str]
"""YAML, and the code of the expression after it on the line; empty if there is none."""


def yaml_text(manifest: Manifest, escape: Callable[[str], str] = str) -> str:
    """Format one manifest as a document, without the separator.

    `escape` protects YAML outside expressions from the program that evaluates expressions.
    """
    return "".join(f"{escape(text)}{code}\n" for text, code in _block(manifest, ""))


def yaml_documents(manifests: Iterable[Manifest]) -> str:
    """Format several manifests as one stream, each after a separator."""
    return "".join(f"---\n{yaml_text(manifest)}" for manifest in manifests)


def _block(value: Any, indent: str) -> Iterator[_Line]:
    """Yield the lines of a non-empty mapping or list."""
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
    """Yield the lines of a key and its value."""
    if _has_lines(value):
        yield head, ""
        # Lists start at the indentation of their key, as in kubectl's output.
        yield from _block(value, f"{indent}  " if isinstance(value, dict) else indent)
    elif isinstance(value, str) and _fits_block(value):
        yield f"{head} |", ""
        yield from ((f"{indent}  {line}" if line else "", "") for line in value.splitlines())
    else:
        yield _value(head, value)


def _value(head: str, value: Any) -> _Line:
    """Return the line of a key or a hyphen with its scalar value."""
    if isinstance(value, Expression):
        return f"{head} ", value.code
    return f"{head} {scalar(value)}", ""


def _has_lines(value: Any) -> bool:
    return isinstance(value, dict | list | tuple) and len(value) > 0


def _fits_block(text: str) -> bool:
    """True if a multi-line text can be written as a block scalar."""
    if not text.endswith("\n") or text.endswith("\n\n") or text.count("\n") < 2:
        return False
    lines = text[:-1].split("\n")
    # Parsers take the indentation of the block from its first non-empty line.
    return lines[0][:1] not in ("", " ") and all(
        line.isprintable() and line == line.rstrip() for line in lines
    )


KUSTOMIZATION = "kustomization.yaml"


def rendering_files(rendering: Rendering) -> dict[str, str]:
    """Return each manifest as a file, numbered in the order of creation."""
    files = {
        file_name(number, manifest): yaml_text(manifest)
        for number, manifest in enumerate(rendering.manifests, start=1)
    }
    kustomization: Manifest = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        # kustomize would put unknown kinds last, and the order here matters.
        "sortOptions": {"order": "fifo"},
        "resources": list(files),
    }
    return files | {KUSTOMIZATION: yaml_text(kustomization)}


def file_name(number: int, manifest: Manifest) -> str:
    """Return a file name such as `08-pytorchjob-slim-7b.yaml`."""
    return f"{number:02}-{manifest['kind'].lower()}-{manifest['metadata']['name']}.yaml"
