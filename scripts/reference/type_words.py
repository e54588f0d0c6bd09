# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The type of a spec field in words."""

from collections.abc import Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from seatrial.spec import cluster, data, engine, scalars
from seatrial.spec.base import SpecModel

# Types whose form no annotation tells: their validators read it.
_NAMED: list[tuple[Any, str]] = [
    (scalars.Count, "count, such as `1500`, `100k` or `150B`"),
    (scalars.ByteSize, "size, such as `500Gi` or `16Ti`"),
    (scalars.AutoInt, "whole number above 0, or `auto`"),
    (scalars.AutoFlag, "`true`, `false` or `auto`"),
    (data.Split, "three numbers, such as `[98, 2, 0]`"),
    (cluster.Variable, "name"),
    (engine.OptionName, "name"),
    (engine.OptionValue, "switch, number, text or list"),
]
_PLAIN = {str: "text", bool: "`true` or `false`", int: "whole number", float: "number"}


def type_words(annotation: Any) -> str:
    """What a person may write for a field of this type."""
    for known, words in _NAMED:
        if annotation is known:
            return words
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _bounded(arguments[0], arguments[1:])
    if origin in (Union, UnionType):
        return " or ".join(type_words(part) for part in arguments if part is not NoneType)
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in arguments)
    if origin is tuple:
        return f"list of {_plural(arguments[0])}"
    if origin is Mapping:
        return f"{type_words(arguments[0])}: {type_words(arguments[1])}"
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return "choice"
    if isinstance(annotation, type) and issubclass(annotation, SpecModel):
        return "section"
    raise SystemExit(f"type_words.py has no words for {annotation}. Add them.")


def _plural(annotation: Any) -> str:
    """The words for the items of a list."""
    words = type_words(annotation)
    return f"{words}s" if words == "section" else words


def _bounded(annotation: Any, metadata: tuple[Any, ...]) -> str:
    """The words for a number with limits."""
    limits: dict[str, Any] = {}
    for item in metadata:
        parts = item.metadata if isinstance(item, FieldInfo) else [item]
        for part in parts:
            for name in ("gt", "ge", "lt", "le"):
                if getattr(part, name, None) is not None:
                    limits[name] = getattr(part, name)
    # Above this a number is no count of anything; it is a guard, not a limit worth reading.
    if limits.get("le") == scalars.LARGEST:
        del limits["le"]
    words = type_words(annotation)
    if "gt" in limits:
        words += f" above {limits['gt']}"
    if "ge" in limits:
        words += f" from {limits['ge']}" + ("" if "le" in limits else " up")
    if "le" in limits:
        words += f" to {limits['le']}"
    return words
