# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""All spec fields with path and docstring, for messages, schema and reference."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from pydantic.fields import FieldInfo

from seatrial.docstrings import field_docs
from seatrial.spec.base import SpecModel
from seatrial.spec.run import RunSpec


@dataclass(frozen=True, slots=True)
class SpecField:
    """One field as it appears in a spec file."""

    path: tuple[str, ...]
    """Keys from the root; `[]` represents the items of a list."""
    info: FieldInfo
    """Pydantic's description of the field: type and default."""
    doc: str
    """The docstring below the field."""
    section: type[SpecModel] | None
    """The model class if the field is a section or a list of sections, otherwise None."""

    @property
    def name(self) -> str:
        """The path as a string, such as `data.sources[].weight`."""
        return ".".join(self.path).replace(".[]", "[]")


def section_of(annotation: Any) -> type[SpecModel] | None:
    """Return the section in an annotation such as `X | None` or `tuple[X, ...] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, SpecModel):
        return annotation
    for argument in get_args(annotation):
        found = section_of(argument)
        if found is not None:
            return found
    return None


def holds_list(annotation: Any) -> bool:
    """Return True if the annotation is a list type."""
    origin = getattr(annotation, "__origin__", None)
    return origin is tuple or any(holds_list(argument) for argument in get_args(annotation))


def fields_of(section: type[SpecModel], prefix: tuple[str, ...] = ()) -> Iterator[SpecField]:
    """Yield the fields of a section and its subsections, in order."""
    docs = field_docs(section)
    for attribute, info in section.model_fields.items():
        path = (*prefix, info.alias or attribute)
        below = section_of(info.annotation)
        yield SpecField(path, info, docs.get(attribute, ""), below)
        if below is not None:
            yield from fields_of(below, (*path, "[]") if holds_list(info.annotation) else path)


@cache
def all_fields() -> dict[tuple[str, ...], SpecField]:
    """Return all fields of a spec by path."""
    return {field.path: field for field in fields_of(RunSpec)}


def field_at(path: tuple[str | int, ...]) -> SpecField | None:
    """Return the field at a path in a file, ignoring list indexes; None if there is none."""
    return all_fields().get(tuple("[]" if isinstance(key, int) else key for key in path))


def takes_null(field: SpecField) -> bool:
    """Return True if the field accepts null."""
    return type(None) in get_args(field.info.annotation)


def siblings(path: tuple[str | int, ...]) -> list[str]:
    """Return the valid keys of the section that contains the path."""
    parent = tuple("[]" if isinstance(key, int) else key for key in path[:-1])
    return [known[-1] for known in all_fields() if known[:-1] == parent]


def places_named(key: str) -> list[str]:
    """Return the full names of all spec fields with this key."""
    return [field.name for path, field in all_fields().items() if path[-1] == key]
