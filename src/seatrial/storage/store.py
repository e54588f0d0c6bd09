# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The store interface: one small interface for directories and object stores."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from seatrial.errors import SeatrialError
from seatrial.secrets.redaction import REDACTED, looks_secret


def named(address: str) -> str:
    """Return an address for a message, redacted if it looks like a secret."""
    return REDACTED if looks_secret(address, "revision") else address


class UnsafePathError(SeatrialError):
    """A path from a file that may be foreign points outside its store."""


class StoreError(SeatrialError):
    """A store returned an error or timed out. The message contains the fix."""


class BusyStoreError(StoreError):
    """A store timed out: the same call may succeed later without any change."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    path: str
    """Path below the root of the store, separated by `/`."""
    size: int
    """Size in bytes."""


class Store(Protocol):
    """Files below one root. Every path is relative to the root and cannot leave it."""

    address: str
    """The root: a path, or an address with a scheme."""

    def read(self, path: str) -> bytes:
        """Read a small file. Raises FileNotFoundError if it does not exist."""

    def open_reader(self, path: str, start: int = 0) -> BinaryIO:
        """Open a stream at an offset. Resumes broken connections at the same byte."""

    def open_writer(self, path: str) -> BinaryIO:
        """Open a stream to a new file, which appears when the stream is closed without an error.

        An exception in a `with` block, or dropping the stream, leaves no file.
        """

    def create(self, path: str, data: bytes) -> bool:
        """Create a small file atomically. Return False, without a change, if it already exists."""

    def list(self, below: str = "", *, deep: bool = True) -> Iterator[StoredFile]:
        """List all complete files below a path, sorted by path.

        With `deep=False`, list only the files directly in the path, not in its subdirectories.
        """

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files. Missing files are not an error."""

    def sync(self) -> None:
        """Make the files in the root survive a power loss.

        Call this before operations that rely on these files: creating a record, deleting parts.
        """

    def sweep(self, below: str = "", everything: bool = False) -> None:
        """Delete invisible leftovers of killed writers below a path, or in the root.

        Deletes only leftovers of processes that are known to be dead. With `everything`, deletes
        all unfinished files: use it only if no other process can be writing there.
        """


def path_parts(path: str, address: str) -> tuple[str, ...]:
    """Split a path below a store's root. Raises UnsafePathError if it points outside the root."""
    parts = tuple(path.split("/"))
    if "\0" in path or not path or any(part in ("", ".", "..") for part in parts):
        raise UnsafePathError(
            f"{path!r} is not a path below {address}: it must be relative, without empty parts, "
            "'.', '..' or NUL. The file that contains this path is damaged or not from Seatrial; "
            "delete that file and prepare the data again."
        )
    return parts
