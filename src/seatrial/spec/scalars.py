# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Scalar types of the spec: strict numbers, and quantities as people write them."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema

from seatrial.spec.base import broken
from seatrial.spec.codes import SpecCode
from seatrial.spec.secrets import shown
from seatrial.units import parse_bytes, parse_count, parse_duration

LARGEST = 2**53
"""Up to here a whole number survives JSON and floats exactly; no run counts further."""

# Strict: a quoted "8" or a yes is a mistake worth naming, not something to convert.
PositiveInt = Annotated[int, Field(strict=True, gt=0, le=LARGEST)]
NonNegativeInt = Annotated[int, Field(strict=True, ge=0, le=LARGEST)]
PositiveFloat = Annotated[float, Field(strict=True, gt=0)]
NonNegativeFloat = Annotated[float, Field(strict=True, ge=0)]
Fraction = Annotated[float, Field(strict=True, ge=0, le=1)]
Flag = Annotated[bool, Field(strict=True)]

Auto = Literal["auto"]
AUTO: Auto = "auto"


def _is_positive(value: Any) -> bool:
    """Whether the value is a whole number that a run can have."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LARGEST


def _count(value: Any) -> int:
    """A count from a whole number or from text such as 150B."""
    number = value
    if isinstance(value, str):
        try:
            number = parse_count(value)
        except ValueError:
            number = None
    elif isinstance(value, float) and value.is_integer():
        number = int(value)
    if not _is_positive(number):
        raise broken(
            f"must be a positive whole number, not {shown(value)}.",
            "Write it as 1500, 100k, 2.5M, 150B or 1.5T.",
            SpecCode.TYPE,
        )
    return int(number)


def _bytes(value: Any) -> int:
    """A size in bytes from text such as 16Ti."""
    try:
        size: Any = parse_bytes(value) if isinstance(value, str) else value
    except ValueError:
        size = None
    if not _is_positive(size):
        raise broken(
            f"must be a size, not {shown(value)}.", "Write it as 500Gi, 16Ti or 2T.", SpecCode.TYPE
        )
    return int(size)


def _seconds(value: Any) -> int:
    """A duration in seconds from text such as 90m."""
    try:
        seconds: Any = parse_duration(value) if isinstance(value, str) else value
    except ValueError:
        seconds = None
    if not _is_positive(seconds):
        raise broken(
            f"must be a duration, not {shown(value)}.",
            "Write it as 30s, 90m, 2h or 1d.",
            SpecCode.TYPE,
        )
    return int(seconds)


def _auto_or_positive(value: Any) -> int | Auto:
    """A positive whole number, or `auto`."""
    if value == AUTO:
        return AUTO
    if _is_positive(value):
        return int(value)
    fix = "Write a number such as 8, or auto."
    if isinstance(value, str) and value.strip().isdigit():
        fix = f"Write {value.strip()} without quotes."
    rule = f"must be a positive whole number or auto, not {shown(value)}."
    raise broken(rule, fix, SpecCode.TYPE)


def _auto_or_flag(value: Any) -> bool | Auto:
    """True, false, or `auto`."""
    if value == AUTO and isinstance(value, str):
        return AUTO
    if isinstance(value, bool):
        return value
    rule = f"must be true, false or auto, not {shown(value)}."
    raise broken(rule, "Write true, false or auto, without quotes.", SpecCode.TYPE)


_POSITIVE = {"type": "integer", "exclusiveMinimum": 0}

Count = Annotated[
    int,
    BeforeValidator(_count),
    WithJsonSchema(
        {"anyOf": [_POSITIVE, {"type": "string", "pattern": r"^\d[\d_]*(\.\d+)?\s*[kKmMbBgGtT]?$"}]}
    ),
]
"""A positive whole number, also written as 100k, 2.5M, 150B or 1.5T."""

ByteSize = Annotated[
    int,
    BeforeValidator(_bytes),
    WithJsonSchema(
        {"anyOf": [_POSITIVE, {"type": "string", "pattern": r"^\d+(\.\d+)?\s*([KMGTP]i?)?B?$"}]}
    ),
]
"""A size in bytes, also written as 500Gi, 16Ti or 2T."""

Duration = Annotated[
    int,
    BeforeValidator(_seconds),
    WithJsonSchema(
        {"anyOf": [_POSITIVE, {"type": "string", "pattern": r"^\d+(\.\d+)?\s*[smhd]$"}]}
    ),
]
"""A duration in seconds, also written as 30s, 90m, 2h or 1d."""

AutoInt = Annotated[
    int | Auto,
    PlainValidator(_auto_or_positive),
    WithJsonSchema({"anyOf": [_POSITIVE, {"const": "auto"}]}),
]
"""A positive whole number, or auto."""

AutoFlag = Annotated[
    bool | Auto,
    PlainValidator(_auto_or_flag),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"const": "auto"}]}),
]
"""True, false, or auto."""
