# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The codes under which reading, tokenizing and writing parts report, and their error."""

from enum import StrEnum

from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where


class InputCode(StrEnum):
    """What can be wrong with raw text and tokenizers; the codes are stable."""

    TOKENIZER = "ST-INPUT-001"
    """The tokenizer is absent, or is no tokenizer that is known."""
    END_OF_DOCUMENT = "ST-INPUT-002"
    """Nothing says which token ends a document."""
    STREAM = "ST-INPUT-010"
    """A compressed file is cut short or damaged."""
    PARQUET = "ST-INPUT-011"
    """A Parquet file cannot be read, or lacks a column."""
    BAD_SHARE = "ST-INPUT-012"
    """Too many lines of a task cannot be used."""
    DOMAINS = "ST-INPUT-013"
    """A source has more domains than files can be made for."""
    LENGTH = "ST-INPUT-014"
    """A document is longer than the format can hold."""
    NOTHING = "ST-INPUT-015"
    """All sources together gave no text."""
    LOST = "ST-INPUT-016"
    """A line of a file is neither a document nor listed as bad; a defect of Seatrial."""
    AUDIT = "ST-INPUT-020"
    """The fast tokenizer gave other tokens than the reference."""


class BadInputError(FindingsError):
    """Raw text cannot be prepared as it is."""

    def __init__(
        self, code: InputCode, where: str, rule: str, fix: str, value: str = "", line: int = 0
    ) -> None:
        """Make the one finding that says where, what and how to mend it."""
        place = Where(file=where, line=line)
        super().__init__([Finding(code, Severity.ERROR, place, rule, value, fix)])
