# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Finding codes for published model configurations."""

from enum import StrEnum

from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where


class HubConfigCode(StrEnum):
    """Why a published config.json cannot be used."""

    MODEL_TYPE = "ST-HUB-001"
    """Seatrial does not support models of this type."""
    VALUE = "ST-HUB-002"
    """A field has a value that the engine does not support."""
    UNKNOWN_FIELD = "ST-HUB-003"
    """A field is not known for this model type and may change the model."""
    INVALID = "ST-HUB-004"
    """A field is missing or malformed, or the file is not a config.json."""
    NOT_FETCHED = "ST-HUB-005"
    """The configuration cannot be downloaded from the Hugging Face Hub."""
    DIFFERENT = "ST-HUB-006"
    """The engine's model, or its initial weights, differ from the published configuration."""


def config_refusal(
    code: HubConfigCode, where: str, field: str, rule: str, fix: str, value: str = ""
) -> FindingsError:
    """Build the error with one finding about a field of a config.json."""
    place = Where(field=field, file=where)
    return FindingsError([Finding(code, Severity.ERROR, place, rule, value, fix)])
