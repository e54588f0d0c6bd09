# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The codes under which options and limits of an engine are reported."""

from enum import StrEnum


class EngineCode(StrEnum):
    """What can be wrong with the options that are passed through; the codes are stable."""

    UNKNOWN_OPTION = "ST-ENGINE-001"
    """The engine has no such option."""
    MODELLED_OPTION = "ST-ENGINE-002"
    """A field of the spec covers the option."""
    OPTION_VALUE = "ST-ENGINE-003"
    """The option does not take such a value."""
    UNCHECKED_OPTION = "ST-ENGINE-004"
    """Only the engine knows whether it has such an option; it is passed on as it is."""
    DERIVED_OPTION = "ST-ENGINE-005"
    """The option would make what the plan says untrue."""
    UNSUPPORTED = "ST-ENGINE-006"
    """The engine cannot train this model or layout."""
