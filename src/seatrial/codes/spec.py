# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Finding codes for reading a spec."""

from enum import StrEnum


class SpecCode(StrEnum):
    """Problems with a spec file."""

    SYNTAX = "ST-YAML-001"
    """The file is not valid YAML."""
    TAB = "ST-YAML-002"
    """A line is indented with a tab."""
    DUPLICATE_KEY = "ST-YAML-003"
    """A section contains the same key twice."""
    ANCHOR = "ST-YAML-004"
    """The file contains an anchor, an alias or a merge key."""
    TAG = "ST-YAML-005"
    """The file contains a YAML tag, which could execute code."""
    DEPTH = "ST-YAML-006"
    """Sections are nested too deeply."""
    SHAPE = "ST-YAML-007"
    """The file is not a single mapping of keys to values."""
    UNREADABLE = "ST-YAML-008"
    """The file is missing, too large, or not UTF-8 text."""
    UNKNOWN_KEY = "ST-SPEC-001"
    """The spec has no such key."""
    MISSING = "ST-SPEC-002"
    """A required field is missing."""
    TYPE = "ST-SPEC-003"
    """A value has the wrong type."""
    RANGE = "ST-SPEC-004"
    """A value is outside its valid range, or is not a valid choice."""
    CONTRADICTION = "ST-SPEC-005"
    """A value violates a rule of its field, or fields contradict each other."""
    SECRET = "ST-SPEC-006"  # noqa: S105  (a code, not a secret)
    """The spec contains the value of a secret."""
    API_VERSION = "ST-SPEC-007"
    """The apiVersion is missing or unknown."""
    OVERRIDE = "ST-SPEC-008"
    """A key=value override cannot be applied."""
    UNKNOWN_NAME = "ST-SPEC-009"
    """A name is not in the catalog."""
    PLACEHOLDER = "ST-SPEC-010"
    """A placeholder in a recipe has not been replaced with a real value."""
