# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The checkpoints section: how often, how many, where."""

from pydantic import Field

from seatrial.spec.addresses import Address
from seatrial.spec.base import SpecModel
from seatrial.spec.scalars import AUTO, AutoInt, Flag, PositiveInt


class CheckpointsSpec(SpecModel):
    """When the run's state is saved, and what is kept of it."""

    every_steps: AutoInt = AUTO
    """Steps between saves."""
    keep_last: PositiveInt = 3
    """Newest checkpoints that are kept."""
    keep_every_steps: PositiveInt | None = None
    """Checkpoints at multiples of this are kept for good; none when absent."""
    location: Address | None = Field(default=None, min_length=1)
    """Where they are written; the run's own directory on the shared volume when absent."""
    asynchronous: Flag = False
    """Whether training goes on while a checkpoint is written."""
