# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What reads a log of some kind, line by line."""

from typing import Protocol

from seatrial.monitoring.event_log import Event


class LogParser(Protocol):
    """Reads a log of one kind."""

    @property
    def marks(self) -> tuple[bytes, ...]:
        """A line without one of these tells nothing, unless something is open."""

    @property
    def is_open(self) -> bool:
        """Whether the next line may tell something without a mark."""

    def feed(self, line: bytes) -> tuple[Event, ...]:
        """The events that a line completes; never an error."""

    def close(self) -> tuple[Event, ...]:
        """The events that the end of the log completes."""
