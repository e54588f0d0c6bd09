# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The reference page of the SDK: every public name with its signature and docstring."""

import inspect
import re
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel

import seatrial
from docs.tools.reference.markdown import code, doc_of, docs_of, fenced, member_docs, page, table

INTRODUCTION = """\
`import seatrial` provides exactly these names. They are loaded on first use, so the import itself
is fast. Errors that a user can fix are raised as `SeatrialError`; see
[exit codes](exit-codes.md) for the exception classes, and [Use from Python](../guides/python.md)
for examples. `seatrial.__version__` is the version."""

RENAMED = """\
Its fields are those of the [spec](spec.md), with the same names except for two that Python spells
differently: `api_version` for `apiVersion`, and `from_` for `from`."""

_MODULES = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])")
_MEMBER = re.compile(r"<(\w+\.\w+): [^>]*>")


def sdk_page() -> str:
    public = {name: getattr(seatrial, name) for name in sorted(seatrial.__all__, key=str.lower)}
    functions = {name: thing for name, thing in public.items() if inspect.isfunction(thing)}
    classes = [thing for thing in public.values() if inspect.isclass(thing)]
    errors = [thing for thing in classes if issubclass(thing, Exception)]
    others = [thing for thing in classes if thing not in errors]
    inner = _inner(others)
    return page(
        "# SDK",
        INTRODUCTION,
        "## Functions",
        *[block for name, function in functions.items() for block in _function(name, function)],
        "## Classes",
        *[block for thing in others for block in _class(thing)],
        "## Exceptions",
        *[block for thing in errors for block in _class(thing)],
        "## Inside a plan",
        "These classes are the types of a plan's fields. They are not exported from `seatrial`.",
        *[block for thing in inner for block in _class(thing)],
    )


def _function(name: str, function: Any) -> list[str]:
    return [f"### `{name}`", fenced(f"{name}{_signature(function)}", "python"), _doc(function)]


def _class(thing: type) -> list[str]:
    """A class with its fields or members, then its methods and properties."""
    blocks = [f"### `{thing.__name__}`", doc_of(thing)]
    if issubclass(thing, Enum):
        values = [(code(value), doc) for value, doc in member_docs(thing).items()]
        return [*blocks, table(("value", "meaning"), values)]
    if issubclass(thing, BaseModel):
        return [*blocks, RENAMED]
    if is_dataclass(thing):
        hints = get_type_hints(thing)
        docs = docs_of(thing, [field.name for field in fields(thing)])
        facts = [(code(name), code(_words(hints[name])), doc) for name, doc in docs.items()]
        blocks.append(table(("field", "type", "meaning"), facts))
    elif "__init__" in thing.__dict__ and not issubclass(thing, Exception):
        blocks.append(fenced(f"{thing.__name__}{_signature(thing)}", "python"))
    rows = [row for name, member in vars(thing).items() for row in _member(name, member)]
    if rows:
        blocks.append(table(("method or property", "result"), rows))
    return blocks


def _member(name: str, member: Any) -> list[tuple[str, str]]:
    if name.startswith("_"):
        return []
    if isinstance(member, property):
        return [(code(name), _doc(member))]
    if inspect.isfunction(member):
        return [(code(f"{name}{_signature(member)}"), _doc(member))]
    return []


def _doc(thing: Any) -> str:
    """The docstring of a function, method or property; it must have one."""
    text = inspect.getdoc(thing)
    if not text:
        raise SystemExit(f"{getattr(thing, '__qualname__', thing)} has no docstring.")
    return text


def _signature(thing: Any) -> str:
    """The signature without the modules of its types and without self."""
    signature = inspect.signature(thing)
    kept = [value for name, value in signature.parameters.items() if name != "self"]
    return _short(str(signature.replace(parameters=kept))).replace(" -> None", "")


def _words(annotation: Any) -> str:
    return _short(inspect.formatannotation(annotation))


def _short(text: str) -> str:
    return _MEMBER.sub(r"\1", _MODULES.sub("", text))


def _inner(classes: list[type]) -> list[type]:
    """The classes of Seatrial that the fields of a plan have, and so on down."""
    found: list[type] = []
    waiting: list[type] = [seatrial.Plan]
    while waiting:
        for annotation in get_type_hints(waiting.pop(0)).values():
            for part in _parts(annotation):
                known = part in classes or part in found
                if part.__module__.startswith("seatrial.planning") and not known:
                    found.append(part)
                    if is_dataclass(part):
                        waiting.append(part)
    return found


def _parts(annotation: Any) -> list[type]:
    if isinstance(annotation, type) and not get_args(annotation):
        return [annotation]
    return [found for part in get_args(annotation) for found in _parts(part)]
