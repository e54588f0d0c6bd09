# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The codes under which reading a spec reports."""

from enum import StrEnum


class SpecCode(StrEnum):
    """What can be wrong with a spec file; the codes are stable."""

    SYNTAX = "ST-YAML-001"
    """The file is not YAML."""
    TAB = "ST-YAML-002"
    """A line is indented with a tab."""
    DUPLICATE_KEY = "ST-YAML-003"
    """A key stands twice in one section."""
    ANCHOR = "ST-YAML-004"
    """An anchor, an alias or a merge key is used."""
    TAG = "ST-YAML-005"
    """A YAML tag is used, which could ask for code to be run."""
    DEPTH = "ST-YAML-006"
    """Sections are nested too deep."""
    SHAPE = "ST-YAML-007"
    """The file is not one mapping of keys to values."""
    UNREADABLE = "ST-YAML-008"
    """The file is absent, too large, or not UTF-8 text."""
    UNKNOWN_KEY = "ST-SPEC-001"
    """A key that the spec does not have."""
    MISSING = "ST-SPEC-002"
    """A required field is absent."""
    TYPE = "ST-SPEC-003"
    """A value of the wrong type."""
    RANGE = "ST-SPEC-004"
    """A value outside its range or choices."""
    CONTRADICTION = "ST-SPEC-005"
    """A value that breaks a rule of its field, or fields that contradict each other."""
    SECRET = "ST-SPEC-006"  # noqa: S105  (a code, not a secret)
    """A secret's value stands in the spec."""
    API_VERSION = "ST-SPEC-007"
    """The apiVersion is absent or unknown."""
    OVERRIDE = "ST-SPEC-008"
    """A key=value override cannot be applied."""
    UNKNOWN_NAME = "ST-SPEC-009"
    """A name that the catalog does not have."""
    PLACEHOLDER = "ST-SPEC-010"
    """A placeholder of a recipe stands where a name of one's own should."""
