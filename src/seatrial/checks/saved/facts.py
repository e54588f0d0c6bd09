# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the check needs to know of checkpoints, whoever looked at them."""

from dataclasses import dataclass
from typing import Protocol

from seatrial.checkpoints.setup import Setup
from seatrial.checks.data_facts import Unknown


@dataclass(frozen=True, slots=True)
class SavedFacts:
    """One checkpoint."""

    step: int
    """The step after which it was saved."""
    setup: Setup | None
    """What its state belongs to; nothing where it has no record that can be read."""
    consumed_samples: int = 0
    """Sequences that were trained on up to then."""
    recorded: bool = True
    """Whether it has a record; a save that was cut short has none, nor has another's."""
    has_optimizer: bool = True
    """Whether it holds the optimizer's state; taken to be so where nobody looked."""

    @property
    def whole(self) -> bool:
        """Whether a run can be told to go on from it."""
        return self.recorded and self.setup is not None


@dataclass(frozen=True, slots=True)
class PlaceFacts:
    """The checkpoints of one place."""

    saved: tuple[SavedFacts, ...]
    """All of them, the newest first."""
    tracked: int | None = None
    """The step that the engine's tracker names; nothing without a tracker."""

    @property
    def newest(self) -> SavedFacts | None:
        """The newest whole one."""
        return next((one for one in self.saved if one.whole), None)


class CheckpointProbe(Protocol):
    """Who looks at places of checkpoints."""

    def at(self, address: str) -> PlaceFacts | Unknown:
        """What lies at a place."""
