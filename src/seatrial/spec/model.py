# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The model section: a preset of the catalog, or the dimensions themselves."""

from pydantic import Field, ValidationInfo, field_validator

from seatrial.spec.architecture import Architecture
from seatrial.spec.base import SpecModel, require_one_of


class ModelSpec(SpecModel):
    """What is trained: exactly one of a preset and dimensions."""

    preset: str | None = None
    """Name of a model in the catalog; see `seatrial catalog list models`."""
    dimensions: Architecture | None = Field(default=None, validate_default=True)
    """The model's own dimensions; start from `seatrial catalog show models NAME`."""

    @field_validator("dimensions")
    @classmethod
    def _exactly_one(cls, dimensions: object, info: ValidationInfo) -> object:
        require_one_of(info.data, dimensions, "preset", "dimensions")
        return dimensions
