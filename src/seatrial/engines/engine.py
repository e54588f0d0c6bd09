# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What Seatrial asks of a training engine; each engine is a folder beside this file."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from seatrial.planning.plan import Plan
from seatrial.spec.engine import EngineName, OptionValue


class EngineCode(StrEnum):
    """What can be wrong with the options that are passed through; the codes are stable."""

    UNKNOWN_OPTION = "ST-ENGINE-001"
    """The engine has no such option."""
    MODELLED_OPTION = "ST-ENGINE-002"
    """A field of the spec covers the option."""
    OPTION_VALUE = "ST-ENGINE-003"
    """The option does not take such a value."""
    UNCHECKED_OPTION = "ST-ENGINE-004"
    """Options of this engine cannot be checked yet."""
    DERIVED_OPTION = "ST-ENGINE-005"
    """The option would make what the plan says untrue."""
    UNSUPPORTED = "ST-ENGINE-006"
    """The engine cannot train this model or layout."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a spec that the engine would refuse, or that belongs elsewhere."""

    code: EngineCode
    """What kind of problem it is."""
    field: str
    """The field of the spec."""
    rule: str
    """What is wrong."""
    fix: str
    """What to do."""


class Engine(Protocol):
    """A training engine as the rest of Seatrial sees it."""

    name: EngineName
    """The name that a spec uses."""
    version: str
    """The version that Seatrial is made for."""

    def option_problems(self, options: Mapping[str, OptionValue]) -> list[Problem]:
        """What is wrong with options that a spec passes through to the engine."""
        ...

    def plan_problems(self, plan: Plan) -> list[Problem]:
        """What the engine cannot do of a plan."""
        ...
