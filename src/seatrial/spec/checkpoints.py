# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The checkpoints section: how often to save, how many to keep, and where."""

from pydantic import Field

from seatrial.spec.addresses import Address
from seatrial.spec.base import SpecModel
from seatrial.spec.scalars import AUTO, AutoInt, Flag, PositiveInt


class CheckpointsSpec(SpecModel):
    """When checkpoints are saved, and which are kept."""

    every_steps: AutoInt = AUTO
    """Steps between checkpoints."""
    keep_last: PositiveInt = 3
    """Number of most recent checkpoints to keep."""
    keep_every_steps: PositiveInt | None = None
    """Keep checkpoints at multiples of this step permanently; if not set, none are."""
    location: Address | None = Field(default=None, min_length=1)
    """Where checkpoints are written; defaults to the run's directory on the shared volume."""
    asynchronous: Flag = False
    """True to continue training while a checkpoint is written."""
