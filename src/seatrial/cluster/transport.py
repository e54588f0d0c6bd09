# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One call of an API server and its answer; how bytes travel is somebody else's matter."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

Json = dict[str, Any]
"""An object of Kubernetes, or a part of one, as plain data."""

JSON = "application/json"
APPLY = "application/apply-patch+yaml"
"""Server-side apply."""
MERGE = "application/merge-patch+json"
"""A JSON merge patch (RFC 7386)."""


@dataclass(frozen=True, slots=True)
class Call:
    """What is asked of the API server."""

    method: str
    path: str
    """The path from the root."""
    query: tuple[tuple[str, str], ...] = ()
    """Parameters behind the question mark."""
    body: Json | None = None
    content: str = JSON
    """The type of what is sent."""
    about: str = ""
    """What it is about, in the words of a message: `PyTorchJob research/slim-7b`."""
    read_seconds: float = 30.0
    """How long a piece of the answer may take."""

    @property
    def reads(self) -> bool:
        """Whether nothing changes by it."""
        return self.method == "GET" or ("dryRun", "All") in self.query


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server says."""

    status: int
    body: Json = field(default_factory=dict)
    retry_after: float | None = None
    """Seconds after which it wants to be asked again, if it said so."""
    warnings: tuple[str, ...] = ()
    """Warnings beside the answer."""

    @property
    def message(self) -> str:
        """What the server says in words."""
        return str(self.body.get("message") or f"status {self.status}").strip().rstrip(".")

    @property
    def reason(self) -> str:
        """The server's own word for it, such as `AlreadyExists`."""
        return str(self.body.get("reason") or "")


class DroppedError(Exception):
    """No answer, or not all of it: refused, reset, timed out, cut off."""

    def __init__(self, reason: str, *, is_read_timeout: bool = False) -> None:
        """Keep whether the server was silent for `Call.read_seconds` on an open connection."""
        self.is_read_timeout = is_read_timeout
        super().__init__(reason)


class RefusedStreamError(Exception):
    """A stream was answered with an error instead."""

    def __init__(self, answer: Answer) -> None:
        """Keep the answer."""
        self.answer = answer
        super().__init__(answer.message)


class Transport(Protocol):
    """Carries calls to one API server."""

    @property
    def server(self) -> str:
        """The address of the server, for messages."""

    def request(self, call: Call) -> Answer:
        """The whole answer, whatever its status; raises DroppedError when there is none."""

    def stream(self, call: Call) -> AbstractContextManager[Iterator[bytes]]:
        """The lines of an answer as they come, without their ends.

        Raises RefusedStreamError for any status but 200, and DroppedError when it breaks off.
        """

    def renew(self) -> None:
        """Load the credentials anew: a token may have expired, a file may have changed."""
