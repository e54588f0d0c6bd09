# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The codes under which the catalog reports, and the finding that bears one."""

from enum import StrEnum

from seatrial.findings import Finding, Severity, Where


class CatalogCode(StrEnum):
    """What can be wrong with a catalog file; the codes are stable."""

    UNREADABLE = "ST-CATALOG-001"
    """A catalog file cannot be read as TOML."""
    INVALID = "ST-CATALOG-002"
    """An entry lacks a fact, or has one that is unknown or of the wrong form."""
    UNKNOWN_LIKE = "ST-CATALOG-003"
    """An entry is like another that does not exist, or like itself in the end."""
    DANGLING = "ST-CATALOG-004"
    """An entry refers to another that does not exist, or whose default is not among its choices."""
    DIRECTORY = "ST-CATALOG-005"
    """A catalog directory does not exist, or holds a file that is of no kind."""


def problem(code: CatalogCode, where: Where, rule: str, fix: str, value: str = "") -> Finding:
    """An error of the catalog."""
    return Finding(code, Severity.ERROR, where, rule, value, fix)
