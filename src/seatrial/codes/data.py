# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Finding codes for reading, tokenizing and writing parts, and their error."""

from enum import StrEnum

from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where


class InputCode(StrEnum):
    """Problems with raw text and tokenizers."""

    TOKENIZER = "ST-INPUT-001"
    """The tokenizer is missing, or its type is not supported."""
    END_OF_DOCUMENT = "ST-INPUT-002"
    """The end-of-document token is unknown."""
    STREAM = "ST-INPUT-010"
    """A compressed file is truncated or corrupt."""
    PARQUET = "ST-INPUT-011"
    """A Parquet file cannot be read, or lacks a column."""
    BAD_SHARE = "ST-INPUT-012"
    """Too many lines in a task are unusable."""
    DOMAINS = "ST-INPUT-013"
    """A source has more domains than the maximum number of output files."""
    LENGTH = "ST-INPUT-014"
    """A document is longer than the format allows."""
    NOTHING = "ST-INPUT-015"
    """All sources together contain no text."""
    LOST = "ST-INPUT-016"
    """A line in a file is neither a document nor listed as bad: a bug in Seatrial."""
    ARCHIVE = "ST-INPUT-017"
    """A tar archive is truncated or corrupt, or has a member that cannot be read."""
    AUDIT = "ST-INPUT-020"
    """The fast tokenizer and the reference tokenizer produced different tokens."""


class BadInputError(FindingsError):
    """Raw text that cannot be prepared without a fix."""

    def __init__(
        self, code: InputCode, where: str, rule: str, fix: str, value: str = "", line: int = 0
    ) -> None:
        """Build the error's only finding, from location, rule and fix."""
        place = Where(file=where, line=line)
        super().__init__([Finding(code, Severity.ERROR, place, rule, value, fix)])
