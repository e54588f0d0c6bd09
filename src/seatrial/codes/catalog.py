# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Finding codes for the catalog, and a helper that builds its findings."""

from enum import StrEnum

from seatrial.findings import Finding, Severity, Where


class CatalogCode(StrEnum):
    """Problems with a catalog file."""

    UNREADABLE = "ST-CATALOG-001"
    """A catalog file is not valid TOML."""
    INVALID = "ST-CATALOG-002"
    """A catalog entry has a missing, unknown or malformed field."""
    UNKNOWN_LIKE = "ST-CATALOG-003"
    """The `like` key of an entry names an entry that does not exist, or forms a cycle."""
    DANGLING = "ST-CATALOG-004"
    """An entry refers to a missing entry, or its default is not among its choices."""
    DIRECTORY = "ST-CATALOG-005"
    """A catalog directory does not exist, or contains a file with an unknown name."""


def problem(code: CatalogCode, where: Where, rule: str, fix: str, value: str = "") -> Finding:
    """Build an error finding about the catalog."""
    return Finding(code, Severity.ERROR, where, rule, value, fix)
