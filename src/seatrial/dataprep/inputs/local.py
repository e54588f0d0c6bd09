# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs on this machine or on a mounted file system."""

import io
import os
import re
from collections.abc import Buffer, Iterator
from typing import BinaryIO

from seatrial.dataprep.inputs.selection import InputError, Listed, Listing
from seatrial.dataprep.tasks.task_list import InputFile
from seatrial.storage.state_files import open_descriptor

_BUFFER = 1 << 20
_SNAPSHOT = re.compile(r"(.*/(?:datasets|models|spaces)--[^/]+)/snapshots/[^/]+(?:/|$)", re.DOTALL)
"""The directory of a repository in the Hub's cache, followed by a revision."""


def list_local(address: str, output: str | None = None) -> Listing:
    """List the file at a path, or every file below it that is not below the output.

    The path itself may be a link. Links inside the corpus are followed once. A link out of the
    corpus is rejected: anyone who can write there could otherwise have any file of this host
    trained on and published with the model.
    """
    path = os.path.abspath(address)
    try:
        if os.path.isdir(path):
            # os.path.relpath takes longer than the listing itself.
            cut = len(os.path.join(path, ""))
            found = [
                Listed(entry.path[cut:], entry.path, *_identity(entry.stat(), target))
                for entry, target in _entries(path, output)
            ]
            return Listing(found)
        target = os.path.realpath(path) if os.path.islink(path) else ""
        found = [Listed(os.path.basename(path), path, *_identity(os.stat(path), target))]
        return Listing(found, alone=True)
    except OSError as error:
        raise InputError(f"{error.filename or path}: {error.strerror}. {_fix(path)}") from error


def require_local(address: str) -> None:
    """Raise InputError if a path does not exist."""
    path = os.path.abspath(address)
    try:
        os.stat(path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}. {_fix(path)}") from error


def _fix(path: str) -> str:
    """Suggest a fix for a path that cannot be listed."""
    if any(mark in path for mark in "*?[") and not os.path.lexists(path):
        return "Move the glob to 'files', and set 'from' to the parent directory."
    above = path
    while above and not os.path.lexists(above):
        above = os.path.dirname(above)
    if above == path:
        return "Check that it is readable."
    return f"Check the path; only {above} exists."


def _identity(status: os.stat_result, target: str = "") -> tuple[int, str]:
    """Identify a file by its size and its time, plus the target if it is a link."""
    return status.st_size, f"{status.st_mtime_ns} {target}".rstrip()


def _entries(start: str, output: str | None) -> Iterator[tuple[os.DirEntry[str], str]]:
    """Yield every file below a directory but not below the output, with the target of a link."""
    waiting = [start]
    seen = set()
    inside = _inside(os.path.realpath(start))
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
                if entry.is_symlink():
                    _refuse_outside(entry.path, start, inside)
                if entry.is_dir():
                    waiting.append(entry.path)
                elif entry.is_file():
                    yield entry, os.path.realpath(entry.path) if entry.is_symlink() else ""
                elif entry.is_symlink():
                    raise InputError(
                        f"{entry.path}: broken link, so data may be missing. "
                        "Fix or remove the link."
                    )


def _inside(root: str) -> tuple[str, ...]:
    """Return the directories that count as the corpus.

    In the Hub's cache, the files of `snapshots/REVISION` are links to `blobs` next to it.
    """
    cached = _SNAPSHOT.match(root)
    blobs = (f"{cached[1]}/blobs/",) if cached else ()
    return (os.path.join(root, ""), *blobs)


def _refuse_outside(link: str, start: str, inside: tuple[str, ...]) -> None:
    target = os.path.realpath(link)
    if os.path.lexists(target) and not os.path.join(target, "").startswith(inside):
        raise InputError(
            f"{link}: links to {target}, outside of the corpus {start}. Add {target} as a "
            "separate source, copy it into the corpus, or remove the link."
        )


class _PinnedFile(io.FileIO):
    """A file that raises an error as soon as it is not the one that was listed."""

    def __init__(self, file: InputFile) -> None:
        self._pinned = (file.size, file.version)
        self._target = file.version.partition(" ")[2]
        if self._target and os.path.realpath(file.address) != self._target:
            raise changed(file.address, f"a link to {self._target}", "a link to a different file")
        # Do not follow a link if the file was not a link when it was listed.
        no_link = os.O_NOFOLLOW if not self._target else 0
        path = self._target or file.address
        super().__init__(
            path, "rb", opener=lambda name, flags: open_descriptor(name, flags | no_link)
        )
        try:
            self._check()
        except InputError:
            self.close()
            raise

    def _check(self) -> None:
        now = _identity(os.fstat(self.fileno()), self._target)
        if now != self._pinned:
            raise changed(str(self.name), f"{self._pinned[0]:,} bytes", f"{now[0]:,} bytes")

    def readinto(self, buffer: Buffer, /) -> int:
        """Read, then check that the file has not changed."""
        count = super().readinto(buffer)
        self._check()
        return count or 0

    def readall(self) -> bytes:
        """Read, then check that the file has not changed."""
        data = super().readall()
        self._check()
        return data or b""


def open_local(file: InputFile) -> BinaryIO:
    """Open a file on this machine."""
    try:
        return io.BufferedReader(_PinnedFile(file), _BUFFER)
    except OSError as error:
        raise InputError(
            f"{file.address}: {error.strerror}; it existed when the inputs were listed. Restore "
            "it, or prepare the data from scratch."
        ) from error


def changed(address: str, before: str, now: str) -> InputError:
    """Return the error for an input that has changed since the task list was frozen."""
    return InputError(
        f"{address}: changed since the inputs were listed (then {before}, now {now}). Restore the "
        "old file, or prepare the data from scratch, so that all data comes from one version."
    )
