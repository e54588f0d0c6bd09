# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Finding codes for rejected exports and imports."""

from enum import StrEnum

from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where


class ExchangeCode(StrEnum):
    """Why weights cannot be exported to or imported from Hugging Face."""

    NO_CLASS = "ST-EXCHANGE-001"
    """No Hugging Face class that export supports has the components of this model."""
    NO_ENGINE = "ST-EXCHANGE-002"
    """The engine, or the import, does not support a model with the components of these weights."""
    TENSORS = "ST-EXCHANGE-003"
    """The tensors do not match the model's dimensions."""
    UNREADABLE = "ST-EXCHANGE-004"
    """The weights cannot be read, or are in a format that could execute code."""
    TARGET = "ST-EXCHANGE-005"
    """The target directory of the weights is not empty."""
    OTHER_MODEL = "ST-EXCHANGE-006"
    """The initial weights of a run belong to a different model."""
    NOT_GIVEN = "ST-EXCHANGE-007"
    """The initial weights of a run cannot be downloaded from the Hugging Face Hub."""
    OTHER_LOGITS = "ST-EXCHANGE-008"
    """The exported weights produce different logits in transformers than the checkpoint."""


def refusal(code: ExchangeCode, where: str, rule: str, fix: str, value: str = "") -> FindingsError:
    """Build the error with one finding that stops an export or an import."""
    return FindingsError([Finding(code, Severity.ERROR, Where(file=where), rule, value, fix)])
