# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How often a run may start again without having got any further."""

from typing import Protocol


class RestartBudget(Protocol):
    """Counts restarts; a run that gets on may go on restarting for months."""

    def began(self, step: int) -> None:
        """Training began from a step: further than ever before is progress."""

    def spend(self) -> bool:
        """One more restart; whether it may be."""

    @property
    def spent(self) -> int:
        """Restarts since the last progress."""


class RestartsInARow:
    """Allows so many restarts in a row without progress, within the life of one supervisor."""

    def __init__(self, allowed: int) -> None:
        """Begin with all of them."""
        self._allowed = allowed
        self._spent = 0
        self._furthest = -1

    def began(self, step: int) -> None:
        """Training began from a step: a checkpoint beyond those before makes all as new."""
        if step > self._furthest:
            # The very first beginning is no progress: it may be at step 0 of a run that always ends
            # there.
            if self._furthest >= 0:
                self._spent = 0
            self._furthest = step

    def spend(self) -> bool:
        """One more restart; whether it may be."""
        self._spent += 1
        return self._spent <= self._allowed

    @property
    def spent(self) -> int:
        """Restarts since the last progress."""
        return self._spent
