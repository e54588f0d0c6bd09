# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs on this machine, or on a file system that it has mounted."""

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
"""A revision in the Hub's cache, and the repository's directory."""


def list_local(address: str, output: str | None = None) -> Listing:
    """The file at a path, or every file below it but not below the output.

    The path itself may be a link, and links inside the corpus are followed, once. One that leads
    out of the corpus is refused: whoever may write there could have any file of this host trained
    on and published with the model.
    """
    path = os.path.abspath(address)
    try:
        if os.path.isdir(path):
            # os.path.relpath would take longer than the listing itself.
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


def _identity(status: os.stat_result, target: str = "") -> tuple[int, str]:
    """What a file is known by: its size, and its time with what a link led to."""
    return status.st_size, f"{status.st_mtime_ns} {target}".rstrip()


def _entries(start: str, output: str | None) -> Iterator[tuple[os.DirEntry[str], str]]:
    """Every file below a directory without what is below the output; of a link, also its target."""
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
                        f"{entry.path}: is a link to nothing that can be read, so data may be "
                        "missing. Mend the link, or remove it."
                    )


def _inside(root: str) -> tuple[str, ...]:
    """The directories that count as the corpus.

    The Hub's cache keeps the files of `snapshots/REVISION` in `blobs` beside it, as links.
    """
    cached = _SNAPSHOT.match(root)
    blobs = (f"{cached[1]}/blobs/",) if cached else ()
    return (os.path.join(root, ""), *blobs)


def _refuse_outside(link: str, start: str, inside: tuple[str, ...]) -> None:
    target = os.path.realpath(link)
    if os.path.lexists(target) and not os.path.join(target, "").startswith(inside):
        raise InputError(
            f"{link}: is a link to {target}, outside of the corpus {start}. Name {target} as a "
            "source of its own, copy it into the corpus, or remove the link."
        )


class _PinnedFile(io.FileIO):
    """A file that is read only as long as it is the one that was listed."""

    def __init__(self, file: InputFile) -> None:
        self._pinned = (file.size, file.version)
        self._target = file.version.partition(" ")[2]
        if self._target and os.path.realpath(file.address) != self._target:
            raise changed(file.address, f"a link to {self._target}", "one to another file")
        # What was no link when it was listed is not followed now, wherever it leads.
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
