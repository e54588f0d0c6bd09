# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The interface of a log parser."""

from typing import Protocol

from seatrial.monitoring.event_log import Event


class LogParser(Protocol):
    """Parses one log format, line by line."""

    @property
    def marks(self) -> tuple[bytes, ...]:
        """A line without one of these has no data, unless a block is open."""

    @property
    def is_open(self) -> bool:
        """True if the next line may have data without a mark."""

    def feed(self, line: bytes) -> tuple[Event, ...]:
        """Return the events that a line completes. Never raises."""

    def close(self) -> tuple[Event, ...]:
        """Return the events that the end of the log completes."""
