# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Limit restarts without progress."""

from typing import Protocol


class RestartBudget(Protocol):
    """Counts restarts. A run that makes progress may restart any number of times."""

    def began(self, step: int) -> None:
        """Record the start of training. Starting at a later step than ever before is progress."""

    def spend(self) -> bool:
        """Count a restart. Return True if it is allowed."""

    @property
    def spent(self) -> int:
        """Restarts since the last progress."""


class RestartsInARow:
    """Allows a number of consecutive restarts without progress, for one supervisor process."""

    def __init__(self, allowed: int) -> None:
        self._allowed = allowed
        self._spent = 0
        self._furthest = -1

    def began(self, step: int) -> None:
        """Record the start of training. A later step than ever before resets the counter."""
        if step > self._furthest:
            # The first start is not progress: a run may always fail at step 0.
            if self._furthest >= 0:
                self._spent = 0
            self._furthest = step

    def spend(self) -> bool:
        """Count a restart. Return True if it is allowed."""
        self._spent += 1
        return self._spent <= self._allowed

    @property
    def spent(self) -> int:
        """Restarts since the last progress."""
        return self._spent
