# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Scalar types in the spec: strict numbers, and quantities with suffixes or units."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema

from seatrial.codes.spec import SpecCode
from seatrial.naming import MAX_RUN_NAME, as_dns_label, is_run_name
from seatrial.spec.base import broken
from seatrial.spec.secrets import shown
from seatrial.units import parse_bytes, parse_count

LARGEST = 2**53
"""The largest integer that JSON and floats represent exactly; no run needs more."""

# Strict: a quoted "8" or a `yes` is reported as a mistake, not converted.
PositiveInt = Annotated[int, Field(strict=True, gt=0, le=LARGEST)]
NonNegativeInt = Annotated[int, Field(strict=True, ge=0, le=LARGEST)]
PositiveFloat = Annotated[float, Field(strict=True, gt=0)]
NonNegativeFloat = Annotated[float, Field(strict=True, ge=0)]
Fraction = Annotated[float, Field(strict=True, ge=0, le=1)]
BelowOne = Annotated[float, Field(strict=True, ge=0, lt=1)]
Flag = Annotated[bool, Field(strict=True)]

Auto = Literal["auto"]
AUTO: Auto = "auto"


def _is_positive(value: Any) -> bool:
    """Return True if the value is an integer from 1 to LARGEST."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LARGEST


def _count(value: Any) -> int:
    """Parse a count from an integer or a string such as 150B."""
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
            "Write a count such as 1500, 100k, 2.5M, 150B or 1.5T.",
            SpecCode.TYPE,
        )
    return int(number)


def _bytes(value: Any) -> int:
    """Parse a size such as 16Ti; a number without a unit is ambiguous and rejected."""
    if _is_positive(value) or (isinstance(value, str) and value.strip().isdecimal()):
        number = str(value).strip()
        fix = (
            f"Write {number}Ti or {number}Gi."
            if len(number) < 6
            else "Write a size such as 500Gi or 16Ti."
        )
        raise broken(f"{shown(value)} has no unit.", fix, SpecCode.TYPE)
    try:
        size = parse_bytes(value) if isinstance(value, str) else 0
    except ValueError:
        size = 0
    if not _is_positive(size):
        raise broken(
            f"must be a size, not {shown(value)}.",
            "Write a size such as 500Gi, 16Ti or 2T.",
            SpecCode.TYPE,
        )
    return size


def _as_size(size: int) -> str:
    """Format the size in the largest unit that divides it, so that it can be parsed again."""
    for power, unit in ((5, "Pi"), (4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
        if size % 1024**power == 0:
            return f"{size // 1024**power}{unit}"
    return f"{size}B"


def _run_name(name: Any) -> Any:
    """Check the name of a run; values of other types are left to the type check."""
    # Otherwise, a number would first be rejected as not a string and, once quoted, as not a name.
    if isinstance(name, int | float) and not isinstance(name, bool):
        name = str(name)
    if isinstance(name, str) and not is_run_name(name):
        # A name that does not start with a letter gets a prefix instead of losing its start.
        begins_well = name[:1].isascii() and name[:1].isalpha()
        raise broken(
            f"{shown(name)} is not a valid run name: use at most {MAX_RUN_NAME} lowercase letters, "
            "digits and single hyphens, starting with a letter.",
            f"Use {as_dns_label(name if begins_well else f'run-{name}')}.",
        )
    return name


def _auto_or_positive(value: Any) -> int | Auto:
    """Check that the value is a positive integer or `auto`."""
    if value == AUTO:
        return AUTO
    if _is_positive(value):
        return int(value)
    fix = "Write a number such as 8, or auto."
    if isinstance(value, str) and value.strip().isdigit():
        fix = f"Write {value.strip()} without quotes."
    rule = f"must be a positive integer or auto, not {shown(value)}."
    raise broken(rule, fix, SpecCode.TYPE)


def _auto_or_flag(value: Any) -> bool | Auto:
    """Check that the value is true, false or `auto`."""
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
"""A positive integer, also written as 100k, 2.5M, 150B or 1.5T."""

ByteSize = Annotated[
    int,
    BeforeValidator(_bytes),
    PlainSerializer(_as_size, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": r"^\d+(\.\d+)?\s*([KMGTP]i?B?|B)$"}),
]
"""A size with its unit, such as 500Gi, 16Ti or 2T; parsed to bytes."""

RunName = Annotated[str, BeforeValidator(_run_name)]
"""The name of a run, which is valid in names of Kubernetes objects."""

AutoInt = Annotated[
    int | Auto,
    PlainValidator(_auto_or_positive),
    WithJsonSchema({"anyOf": [_POSITIVE, {"const": "auto"}]}),
]
"""A positive integer, or auto."""

AutoFlag = Annotated[
    bool | Auto,
    PlainValidator(_auto_or_flag),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"const": "auto"}]}),
]
"""True, false, or auto."""
