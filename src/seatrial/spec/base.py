# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The base of every section of a spec, and how a rule says that it was broken."""

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from seatrial.codes.spec import SpecCode


class SpecModel(BaseModel):
    """A frozen section of a spec; an unknown key is an error, so that a typo cannot hide.

    Rules that compare fields are validators of the field that is declared last among them:
    pydantic runs those even when other fields are wrong, so that one pass reports everything.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid",
        frozen=True,
        populate_by_name=True,
        allow_inf_nan=False,
        # A validator for every section, besides the one for the whole spec, would be built at
        # every start; it is built when a section is made on its own.
        defer_build=True,
    )


def defaults(**values: Any) -> Any:
    """The default of a section: its own defaults, and these values."""
    return Field(default=values, validate_default=True)


DEFAULTS: Any = defaults()
"""The default of a section whose keys all have one."""


def broken(
    rule: str,
    fix: str,
    code: SpecCode = SpecCode.CONTRADICTION,
    absent: tuple[str, ...] = (),
    inside: tuple[str | int, ...] = (),
    instead: str = "",
) -> PydanticCustomError:
    """The error of a validator: what is wrong, as a sentence, and what to do about it.

    `absent` holds the keys of the same section of which one is missing, if that is what is
    wrong: the finding then speaks of them rather than of the validated field. `inside` leads from
    the validated field, when that is a section or a list, to the value that is at fault. `instead`
    names the field of the same section that is at fault rather than the validated one.
    """
    context: dict[str, Any] = {"rule": rule, "fix": fix, "code": code}
    context |= {"absent": absent, "inside": inside, "instead": instead}
    return PydanticCustomError("seatrial_rule", "{rule}", context)


def require_one_of(data: Mapping[str, Any], last: object, *names: str) -> None:
    """Refuse unless exactly one of the named fields is given; `last` is the value of the last.

    Nothing is said while one of them is itself wrong: its own error comes first.
    """
    earlier, final = names[:-1], names[-1]
    if any(name not in data for name in earlier):
        return
    given = [name for name in earlier if data[name] is not None]
    if last is not None:
        given.append(final)
    # A field whose name is a word of Python has an underscore behind it; its key has none.
    given = [name.rstrip("_") for name in given]
    keys = tuple(name.rstrip("_") for name in names)
    choices = f"{', '.join(keys[:-1])} or {final}"
    if not given:
        raise broken(
            f"exactly one of {choices} is needed, and none is given.",
            f"Add {choices}.",
            absent=keys,
        )
    if len(given) > 1:
        both = f"{', '.join(given[:-1])} and {given[-1]}"
        rest = "the other" if len(given) == 2 else "the rest"
        raise broken(
            f"exactly one of {choices} may be given, and {both} are.",
            f"Keep one of {both}, and remove {rest}.",
        )
