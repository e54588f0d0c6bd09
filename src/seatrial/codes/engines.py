# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Finding codes for the options and limits of an engine."""

from enum import StrEnum


class EngineCode(StrEnum):
    """Problems with options that are passed to the engine."""

    UNKNOWN_OPTION = "ST-ENGINE-001"
    """The engine has no such option."""
    MODELLED_OPTION = "ST-ENGINE-002"
    """A spec field sets this option."""
    OPTION_VALUE = "ST-ENGINE-003"
    """The option does not accept this value."""
    UNCHECKED_OPTION = "ST-ENGINE-004"
    """Only the engine can check whether this option exists; Seatrial passes it unchecked."""
    DERIVED_OPTION = "ST-ENGINE-005"
    """The option would invalidate figures in the plan."""
    UNSUPPORTED = "ST-ENGINE-006"
    """The engine cannot train this model or layout."""
