# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Where the checkpoints of a run are: a directory, or a prefix of an object store.

Built on the stores of data preparation. What those lack is here: directories without their files,
for a checkpoint may have 100,000 of them; a file replaced whole; files one after the other.
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
    """A path, or an address with its scheme."""
    store: Store
    """The files below it."""

    def directories(self) -> list[str]:
        """The names of the directories directly in it, in order."""

    def names(self, directory: str) -> Iterator[str]:
        """The names of files and directories in a directory, in no order, one at a time."""

    def size(self, path: str) -> int | None:
        """Bytes of a file; none where there is no such file."""

    def modified(self, path: str) -> float | None:
        """When a file was written last, in seconds since 1970; none where nobody knows."""

    def replace(self, path: str, data: bytes) -> None:
        """Write a small file whole, in the place of what is there: a reader sees one or other."""

    def open(self, path: str) -> BinaryIO:
        """A stream of a file; FileNotFoundError when there is none."""


class LocalPlace:
    """A directory of this machine, or of a file system that it has mounted."""

    def __init__(self, address: str | os.PathLike[str]) -> None:
        """Look at a directory, which need not be there."""
        self.store: Store = LocalStore(address, "checkpoints.location (or --to)")
        self.address = self.store.address

    def directories(self) -> list[str]:
        """The names of the directories directly in it, in order."""
        try:
            with os.scandir(self.address) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(
                f"{self.address}: {error.strerror}. Check that it is a directory that can be read."
            ) from error

    def names(self, directory: str) -> Iterator[str]:
        """The names in a directory, in no order, one at a time."""
        place = Path(self.address, directory)
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    yield entry.name
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"{place}: {error.strerror}. Check that it can be read.") from error

    def size(self, path: str) -> int | None:
        """Bytes of a file; none where there is no such file."""
        try:
            return Path(self.address, path).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def modified(self, path: str) -> float | None:
        """When a file was written last."""
        try:
            return Path(self.address, path).stat().st_mtime
        except OSError:
            return None

    def replace(self, path: str, data: bytes) -> None:
        """Write a small file whole, in the place of what is there."""
        with self.store.open_writer(path) as stream:
            stream.write(data)

    def open(self, path: str) -> BinaryIO:
        """A stream of a file; FileNotFoundError when there is none."""
        return Path(self.address, path).open("rb")


class ObjectPlace:
    """A prefix of an object store, through fsspec."""

    def __init__(self, address: str) -> None:
        """Look below an address such as `s3://BUCKET/PATH`."""
        self.store: Store = store_at(address)
        self.address = self.store.address
        self._objects = object_files(address)

    def directories(self) -> list[str]:
        """The names of the directories directly in it, in order."""
        return sorted(
            str(entry["name"]).rstrip("/").rpartition("/")[2]
            for entry in self._entries("")
            if entry["type"] == "directory"
        )

    def names(self, directory: str) -> Iterator[str]:
        """The names in a directory, in no order, one at a time."""
        for entry in self._entries(directory):
            yield str(entry["name"]).rstrip("/").rpartition("/")[2]

    def size(self, path: str) -> int | None:
        """Bytes of a file; none where there is no such file."""
        try:
            return int(self._objects.info(path)["size"])
        except FileNotFoundError:
            return None

    def modified(self, path: str) -> float | None:
        """Unknown: stores write down when an object was uploaded, each in its own way."""
        return None

    def replace(self, path: str, data: bytes) -> None:
        """Write a small file whole: an upload replaces at once."""
        with self.store.open_writer(path) as stream:
            stream.write(data)

    def open(self, path: str) -> BinaryIO:
        """A stream of a file; FileNotFoundError when there is none."""
        return self.store.open_reader(path)

    def _entries(self, directory: str) -> list[dict[str, object]]:
        """What a listing with a delimiter gives: directories, and the files beside them."""
        full = self._objects.full(directory)

        def once() -> list[dict[str, object]]:
            found: list[dict[str, object]] = self._objects.files.ls(full, detail=True)
            return found

        try:
            return self._objects.call(directory, once)
        except FileNotFoundError:
            return []


def place_at(address: str) -> Location:
    """The place at a path or an address."""
    return ObjectPlace(address) if "://" in address else LocalPlace(address)
