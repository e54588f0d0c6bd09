# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs on this machine, or on a file system that it has mounted."""

import io
import os
from collections.abc import Buffer, Iterator
from typing import BinaryIO

from seatrial.dataprep.inputs.selection import InputError, Listed, Listing
from seatrial.dataprep.tasks.task_list import InputFile

_BUFFER = 1 << 20


def list_local(address: str, output: str | None = None) -> Listing:
    """The file at a path, or every file below it but not below the output.

    Links are followed, and loops of them are not.
    """
    path = os.path.abspath(address)
    try:
        if os.path.isdir(path):
            # os.path.relpath would take longer than the listing itself.
            cut = len(os.path.join(path, ""))
            found = [
                Listed(entry.path[cut:], entry.path, *_identity(entry.stat()))
                for entry in _entries(path, output)
            ]
            return Listing(found)
        return Listing(
            [Listed(os.path.basename(path), path, *_identity(os.stat(path)))], alone=True
        )
    except OSError as error:
        raise InputError(f"{error.filename or path}: {error.strerror}. {_fix(path)}") from error


def require_local(address: str) -> None:
    """Refuse a path that is not there, which costs nothing to see."""
    path = os.path.abspath(address)
    try:
        os.stat(path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}. {_fix(path)}") from error


def _fix(path: str) -> str:
    """What to do about a path that cannot be listed."""
    if any(mark in path for mark in "*?[") and not os.path.lexists(path):
        return "A glob goes into files; from is the directory above it."
    above = path
    while above and not os.path.lexists(above):
        above = os.path.dirname(above)
    if above == path:
        return "Check that it can be read."
    return f"Check the path; {above} is the part of it that is there."


def _identity(status: os.stat_result) -> tuple[int, str]:
    return status.st_size, str(status.st_mtime_ns)


def _entries(start: str, output: str | None) -> Iterator[os.DirEntry[str]]:
    """Every file below a directory, without what is below the output."""
    waiting = [start]
    seen = set()
    if output is not None and os.path.isdir(output):
        status = os.stat(output)
        seen.add((status.st_dev, status.st_ino))
    while waiting:
        directory = waiting.pop()
        status = os.stat(directory)
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir():
                    waiting.append(entry.path)
                elif entry.is_file():
                    yield entry
                elif entry.is_symlink():
                    raise InputError(
                        f"{entry.path}: is a link to nothing that can be read, so data may be "
                        "missing. Mend the link, or remove it."
                    )


class _PinnedFile(io.FileIO):
    """A file that is read only as long as it is the one that was listed."""

    def __init__(self, file: InputFile) -> None:
        self._pinned = (file.size, file.version)
        super().__init__(file.address, "rb")
        try:
            self._check()
        except InputError:
            self.close()
            raise

    def _check(self) -> None:
        now = _identity(os.fstat(self.fileno()))
        if now != self._pinned:
            raise changed(str(self.name), f"{self._pinned[0]:,} bytes", f"{now[0]:,} bytes")

    def readinto(self, buffer: Buffer, /) -> int:
        """Read as usual, and see that nobody wrote meanwhile."""
        count = super().readinto(buffer)
        self._check()
        return count or 0

    def readall(self) -> bytes:
        """Read as usual, and see that nobody wrote meanwhile."""
        data = super().readall()
        self._check()
        return data or b""


def open_local(file: InputFile) -> BinaryIO:
    """The bytes of a file on this machine."""
    try:
        return io.BufferedReader(_PinnedFile(file), _BUFFER)
    except OSError as error:
        raise InputError(
            f"{file.address}: {error.strerror}; it was there when the inputs were listed. Put it "
            "back, or prepare the data anew from what is there now."
        ) from error


def changed(address: str, before: str, now: str) -> InputError:
    """The error of an input that is not what it was when the task list was frozen."""
    return InputError(
        f"{address}: has changed since the inputs were listed (then {before}, now {now}). Put the "
        "old file back, or start the preparation anew so that all of it is from the same data."
    )
