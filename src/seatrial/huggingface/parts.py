# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The parts of a model type's table: each maps fields of a config.json to dimensions and back."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from seatrial.huggingface.fields import REQUIRED, ConfigFields
from seatrial.spec.model import Architecture

Found = dict[str, Any]
"""Dimensions by their path in an architecture, such as `hidden_size` or `moe.experts`."""


class Part(Protocol):
    """Some fields of a config.json that belong together."""

    def read(self, fields: ConfigFields, found: Found) -> None:
        """Add dimensions to `found`, or refuse a value."""

    def write(self, model: Architecture) -> dict[str, Any]:
        """Return the fields of a model."""


def dimension(model: Architecture, path: str) -> Any:
    """Return a dimension by its path; None if the model does not have the section."""
    value: Any = model
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return value


@dataclass(frozen=True, slots=True)
class Same:
    """A field with the same meaning and unit as a dimension."""

    name: str
    """The field, as written; other spellings are accepted if they agree."""
    path: str
    """The dimension."""
    kind: type = int
    default: Any = REQUIRED
    """The value that transformers uses if the field is missing; None for the dimension's own."""
    spellings: tuple[str, ...] = ()
    """Other names of the field."""

    def read(self, fields: ConfigFields, found: Found) -> None:
        """Read the first spelling; refuse spellings that disagree."""
        given = {name: fields.typed(name, self.kind, None) for name in self.spellings}
        given = {name: value for name, value in given.items() if value is not None}
        fallback = next(iter(given.values()), self.default)
        value = fields.typed(self.name, self.kind, fallback)
        for name, other in given.items():
            if other != value:
                fields.refuse(name, f"{name} and {self.name} ({value}) disagree.", other)
        if value is not None:
            found[self.path] = value
            fields.names[self.path] = self.name

    def write(self, model: Architecture) -> dict[str, Any]:
        """Write the first spelling."""
        return {self.name: dimension(model, self.path)}


@dataclass(frozen=True, slots=True)
class Only:
    """A field of which one meaning is supported."""

    name: str
    values: tuple[Any, ...]
    """The supported values; the first is written."""
    rule: str
    """Why other values are refused, as a sentence."""
    default: Any = None
    """The value that transformers uses if the field is missing."""

    def read(self, fields: ConfigFields, found: Found) -> None:
        """Refuse other values."""
        value = fields.take(self.name, self.default)
        if value is not None and not any(
            value == each and isinstance(value, bool) == isinstance(each, bool)
            for each in self.values
        ):
            fields.refuse(self.name, self.rule, value)

    def write(self, model: Architecture) -> dict[str, Any]:
        """Write the supported value."""
        return {self.name: self.values[0]}


@dataclass(frozen=True, slots=True)
class Implied:
    """Dimensions that every model of a type has."""

    dimensions: Found

    def read(self, fields: ConfigFields, found: Found) -> None:
        """Add the dimensions."""
        found |= self.dimensions

    def write(self, model: Architecture) -> dict[str, Any]:
        """Write nothing."""
        return {}


@dataclass(frozen=True, slots=True)
class Custom:
    """Fields that need a function each way."""

    reader: Callable[[ConfigFields, Found], None]
    writer: Callable[[Architecture], dict[str, Any]]

    def read(self, fields: ConfigFields, found: Found) -> None:
        """Call the function."""
        self.reader(fields, found)

    def write(self, model: Architecture) -> dict[str, Any]:
        """Call the function."""
        return self.writer(model)
