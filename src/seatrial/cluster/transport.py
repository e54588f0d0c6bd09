# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One call to an API server and its answer. The transport is replaceable."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

Json = dict[str, Any]
"""A Kubernetes object, or a part of one, as plain data."""

JSON = "application/json"
APPLY = "application/apply-patch+yaml"
"""Server-side apply."""
MERGE = "application/merge-patch+json"
"""A JSON merge patch (RFC 7386)."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request to the API server."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    """Query parameters."""
    body: Json | None = None
    content: str = JSON
    """The content type of the body."""
    about: str = ""
    """The subject of the call, for messages: `PyTorchJob research/slim-7b`."""
    read_seconds: float = 30.0
    """The read timeout."""

    @property
    def reads(self) -> bool:
        """True if the call changes nothing."""
        return self.method == "GET" or ("dryRun", "All") in self.query


@dataclass(frozen=True, slots=True)
class Answer:
    """A response from the API server."""

    status: int
    body: Json = field(default_factory=dict)
    retry_after: float | None = None
    """The server's Retry-After in seconds, if any."""
    warnings: tuple[str, ...] = ()
    """The server's warnings."""

    @property
    def message(self) -> str:
        """The server's message."""
        return str(self.body.get("message") or f"status {self.status}").strip().rstrip(".")

    @property
    def reason(self) -> str:
        """The server's reason, such as `AlreadyExists`."""
        return str(self.body.get("reason") or "")


class DroppedError(Exception):
    """No answer, or an incomplete one: refused, reset, timed out, interrupted."""

    def __init__(self, reason: str, *, is_read_timeout: bool = False) -> None:
        """Store whether the server was silent for `Call.read_seconds` on an open connection."""
        self.is_read_timeout = is_read_timeout
        super().__init__(reason)


class RefusedStreamError(Exception):
    """The server answered a stream with an error."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        super().__init__(answer.message)


class Transport(Protocol):
    """Sends calls to one API server."""

    @property
    def server(self) -> str:
        """The address of the server, for messages."""

    def request(self, call: Call) -> Answer:
        """Return the answer with any status. Raises DroppedError if there is none."""

    def stream(self, call: Call) -> AbstractContextManager[Iterator[bytes]]:
        """Yield the lines of an answer as they arrive, without line endings.

        Raises RefusedStreamError for any status but 200, and DroppedError if the connection breaks.
        """

    def renew(self) -> None:
        """Load the credentials again: a token may have expired, or a file may have changed."""
