# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Where prepared data are kept: one short interface over a directory and the object stores."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from seatrial.errors import SeatrialError
from seatrial.secrets.redaction import REDACTED, looks_secret


def named(address: str) -> str:
    """An address for a message: without what looks like a secret."""
    return REDACTED if looks_secret(address, "revision") else address


class UnsafePathError(SeatrialError):
    """A path that would lead out of its store, from a file that somebody else wrote."""


class StoreError(SeatrialError):
    """A store that refuses, or that did not answer for too long; the text says what to do."""


class BusyStoreError(StoreError):
    """A store that did not answer for too long: the same may succeed later, with nothing mended."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    path: str
    """Path below the root of the store, with `/` between its parts."""
    size: int
    """Bytes."""


class Store(Protocol):
    """Files below one root. Every path is relative to it and can never leave it."""

    address: str
    """The root: a path, or an address with its scheme."""

    def read(self, path: str) -> bytes:
        """The whole of a small file; FileNotFoundError when there is none."""

    def open_reader(self, path: str, start: int = 0) -> BinaryIO:
        """A stream from an offset on; broken connections are taken up again where they broke."""

    def open_writer(self, path: str) -> BinaryIO:
        """A stream into a new file, which is there when the stream is closed without an error.

        Leaving a `with` block by an error, or forgetting the stream, leaves no file.
        """

    def create(self, path: str, data: bytes) -> bool:
        """Create a small file whole; False, and nothing changed, when it is there already."""

    def list(self, below: str = "", *, deep: bool = True) -> Iterator[StoredFile]:
        """All files below a path, in order of their paths; none that is not whole yet.

        Without `deep` only those directly there: the root may hold directories of others.
        """

    def delete(self, paths: Iterable[str]) -> None:
        """Remove files; one that is gone already is no error."""

    def sync(self) -> None:
        """Make the files in the root outlast a loss of power; they are there, named or uploaded.

        Called before what relies on them: creating a record, and removing work because of one.
        """

    def sweep(self, below: str = "", everything: bool = False) -> None:
        """Remove what killed writers left below a path, or in the root, and `list` does not show.

        Only what is known to be of a process that is gone, or, with `everything`, whatever is
        unfinished: for when nobody can be at work there any more.
        """


def path_parts(path: str, address: str) -> tuple[str, ...]:
    """The parts of a path below a store's root; raises UnsafePathError if it would leave it."""
    parts = tuple(path.split("/"))
    if "\0" in path or not path or any(part in ("", ".", "..") for part in parts):
        raise UnsafePathError(
            f"{path!r} is not a path below {address}: it must be relative, without empty parts, "
            "'.', '..' and NUL. The file that names it is damaged or not from Seatrial; remove "
            "that file and prepare the data again."
        )
    return parts
