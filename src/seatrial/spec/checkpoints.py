# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The checkpoints section: how often to save, how many to keep, and where."""

from pydantic import Field, ValidationInfo, field_validator

from seatrial.spec.addresses import Address
from seatrial.spec.base import SpecModel, broken
from seatrial.spec.scalars import AUTO, AutoInt, Flag, PositiveFloat, PositiveInt

MINUTE, HOUR = 60.0, 3600.0


class CheckpointsSpec(SpecModel):
    """When checkpoints are saved, and which are kept."""

    every_steps: AutoInt = AUTO
    """Steps between checkpoints; with `auto`, a failure loses at most 2 hours of training."""
    # Omitted from dumps if not set, so that specs without these fields keep their digest.
    every_minutes: PositiveFloat | None = Field(
        default=None, exclude_if=lambda value: value is None
    )
    """Minutes of training between checkpoints, instead of `every_steps`; rounded down to steps."""
    every_hours: PositiveFloat | None = Field(default=None, exclude_if=lambda value: value is None)
    """Hours of training between checkpoints, instead of `every_steps`; rounded down to steps."""
    keep_last: PositiveInt = 3
    """Number of most recent checkpoints to keep."""
    keep_every_steps: PositiveInt | None = None
    """Keep checkpoints at multiples of this step permanently; if not set, none are kept."""
    location: Address | None = Field(default=None, min_length=1)
    """Where checkpoints are written; defaults to the run's directory on the shared volume."""
    asynchronous: Flag = False
    """True to continue training while a checkpoint is written."""

    @field_validator("every_minutes", "every_hours")
    @classmethod
    def _excludes_other_intervals(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is None:
            return value
        for name in ("every_steps", "every_minutes"):
            if info.data.get(name) not in (None, AUTO):
                raise broken(
                    f"{name} also sets the interval between checkpoints.",
                    f"Keep {name} or {info.field_name}, not both.",
                )
        return value

    @property
    def every_seconds(self) -> float | None:
        """The interval in seconds if it is set as a time, otherwise None."""
        if self.every_minutes is not None:
            return self.every_minutes * MINUTE
        return None if self.every_hours is None else self.every_hours * HOUR

    @property
    def interval_field(self) -> str:
        """The field that sets the interval; `every_steps` if none is set."""
        if self.every_minutes is not None:
            return "checkpoints.every_minutes"
        return "checkpoints.every_steps" if self.every_hours is None else "checkpoints.every_hours"
