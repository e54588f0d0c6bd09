# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The location of a run's checkpoints: a directory, or a prefix in an object store.

Built on the stores for data preparation. In addition, a location lists directories without their
files, because a checkpoint may have 100,000 files, replaces a file atomically, and iterates over
file names.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

from seatrial.storage.access import store_at
from seatrial.storage.directory import LocalStore
from seatrial.storage.providers import object_files
from seatrial.storage.store import Store, StoreError


class Location(Protocol):
    """The root of a run's checkpoints."""

    address: str
    """A path, or an address with a scheme."""
    store: Store
    """The files below the root."""

    def directories(self) -> list[str]:
        """Return the names of the top-level directories, sorted."""

    def names(self, directory: str) -> Iterator[str]:
        """Yield the names of files and directories in a directory, unsorted."""

    def size(self, path: str) -> int | None:
        """Return the size of a file in bytes; None if it does not exist."""

    def modified(self, path: str) -> float | None:
        """Return the modification time of a file in seconds since 1970; None if unknown."""

    def replace(self, path: str, data: bytes) -> None:
        """Replace a small file atomically: a reader sees the old or the new content."""

    def open(self, path: str) -> BinaryIO:
        """Open a file. Raises FileNotFoundError if it does not exist."""


class LocalPlace:
    """A directory on this machine or on a mounted file system."""

    def __init__(self, address: str | os.PathLike[str]) -> None:
        """Open a directory, which need not exist."""
        self.store: Store = LocalStore(address, "checkpoints.location (or --to)")
        self.address = self.store.address

    def directories(self) -> list[str]:
        """Return the names of the top-level directories, sorted."""
        try:
            with os.scandir(self.address) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(
                f"{self.address}: {error.strerror}. Check that this path is a readable directory."
            ) from error

    def names(self, directory: str) -> Iterator[str]:
        """Yield the names in a directory, unsorted."""
        place = Path(self.address, directory)
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    yield entry.name
        except FileNotFoundError:
            return
        except OSError as error:
            fix = "Check that the directory is readable."
            raise StoreError(f"{place}: {error.strerror}. {fix}") from error

    def size(self, path: str) -> int | None:
        """Return the size of a file in bytes; None if it does not exist."""
        try:
            return Path(self.address, path).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def modified(self, path: str) -> float | None:
        """Return the modification time of a file."""
        try:
            return Path(self.address, path).stat().st_mtime
        except OSError:
            return None

    def replace(self, path: str, data: bytes) -> None:
        """Replace a small file atomically."""
        with self.store.open_writer(path) as stream:
            stream.write(data)

    def open(self, path: str) -> BinaryIO:
        """Open a file. Raises FileNotFoundError if it does not exist."""
        return Path(self.address, path).open("rb")


class ObjectPlace:
    """A prefix in an object store, through fsspec."""

    def __init__(self, address: str) -> None:
        """Open an address such as `s3://BUCKET/PATH`."""
        self.store: Store = store_at(address)
        self.address = self.store.address
        self._objects = object_files(address)

    def directories(self) -> list[str]:
        """Return the names of the top-level directories, sorted."""
        return sorted(
            str(entry["name"]).rstrip("/").rpartition("/")[2]
            for entry in self._entries("")
            if entry["type"] == "directory"
        )

    def names(self, directory: str) -> Iterator[str]:
        """Yield the names in a directory, unsorted."""
        for entry in self._entries(directory):
            yield str(entry["name"]).rstrip("/").rpartition("/")[2]

    def size(self, path: str) -> int | None:
        """Return the size of a file in bytes; None if it does not exist."""
        try:
            return int(self._objects.info(path)["size"])
        except FileNotFoundError:
            return None

    def modified(self, path: str) -> float | None:
        """Return None: each store reports upload times in a different way."""
        return None

    def replace(self, path: str, data: bytes) -> None:
        """Replace a small file: uploads are atomic."""
        with self.store.open_writer(path) as stream:
            stream.write(data)

    def open(self, path: str) -> BinaryIO:
        """Open a file. Raises FileNotFoundError if it does not exist."""
        return self.store.open_reader(path)

    def _entries(self, directory: str) -> list[dict[str, object]]:
        """List the directories and files directly in a directory."""
        full = self._objects.full(directory)

        def once() -> list[dict[str, object]]:
            found: list[dict[str, object]] = self._objects.files.ls(full, detail=True)
            return found

        try:
            return self._objects.call(directory, once)
        except FileNotFoundError:
            return []


def place_at(address: str) -> Location:
    """Return the location at a path or an address."""
    return ObjectPlace(address) if "://" in address else LocalPlace(address)
