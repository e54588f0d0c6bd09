# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The base class of all spec sections, and helpers for validators."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from seatrial.codes.spec import SpecCode


class SpecModel(BaseModel):
    """A frozen section of a spec; unknown keys are errors, so that typos are reported.

    A rule that compares several fields is a validator of the last declared field: pydantic runs it
    even if other fields are invalid, so that one pass reports all errors.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        allow_inf_nan=False,
        # Build a section's validator on first use. By default, pydantic builds one for every
        # section at startup, in addition to the validator for the whole spec.
        defer_build=True,
    )


def defaults(**values: Any) -> Any:
    """Return the default of a section: its own defaults, overridden by these values."""
    return Field(default=values, validate_default=True)


DEFAULTS: Any = defaults()
"""The default of a section in which every key has a default."""


def added_later(default: Any = None) -> Any:
    """Return an optional field that is left out of the digests of specs that do not set it.

    Plans that were stored before the field existed stay valid.
    """
    return Field(default=default, exclude_if=lambda value: value == default)


def broken(
    rule: str,
    fix: str,
    code: SpecCode = SpecCode.CONTRADICTION,
    absent: tuple[str, ...] = (),
    inside: tuple[str | int, ...] = (),
    instead: str = "",
) -> PydanticCustomError:
    """Return the error for a validator to raise: the broken rule as a sentence, and the fix.

    By default, the finding refers to the validated field. If one of several keys in the same
    section is missing, `absent` lists these keys and the finding refers to them. If the validated
    field is a section or a list, `inside` is the path from it to the invalid value. If a different
    field in the same section is invalid, `instead` is its name.
    """
    context: dict[str, Any] = {"rule": rule, "fix": fix, "code": code}
    context |= {"absent": absent, "inside": inside, "instead": instead}
    return PydanticCustomError("seatrial_rule", "{rule}", context)


def require_one_of(data: Mapping[str, Any], last: object, *names: str) -> None:
    """Raise unless exactly one of the named fields is set; `last` is the value of the last one.

    If one of the earlier fields is itself invalid, only its own error is reported.
    """
    earlier, final = names[:-1], names[-1]
    if any(name not in data for name in earlier):
        return
    given = [name for name in earlier if data[name] is not None]
    if last is not None:
        given.append(final)
    # A field named after a Python keyword has a trailing underscore; its key does not.
    given = [name.rstrip("_") for name in given]
    keys = tuple(name.rstrip("_") for name in names)
    choices = f"{', '.join(keys[:-1])} or {final}"
    if not given:
        raise broken(
            f"exactly one of {choices} is required, but none is set.",
            f"Add {choices}.",
            absent=keys,
        )
    if len(given) > 1:
        both = f"{', '.join(given[:-1])} and {given[-1]}"
        rest = "the other" if len(given) == 2 else "the rest"
        raise broken(
            f"only one of {choices} may be set, but {both} are set.",
            f"Keep one of {both}, and remove {rest}.",
        )
