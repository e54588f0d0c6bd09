# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A directory as a store."""

import contextlib
import errno
import os
import re
from collections.abc import Buffer, Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from seatrial.storage.state_files import link_once, make_directory, open_regular, sync_directory
from seatrial.storage.store import StoredFile, StoreError, UnsafePathError, path_parts
from seatrial.storage.writer import Sink, StoreWriter
from seatrial.storage.writer_claims import is_dead, new_attempt

_BUFFER = 1 << 20
_UNFINISHED = re.compile(r"\.seatrial-(?P<attempt>[^~]+)~.*", re.DOTALL)
# How often a directory may vanish under a new file: another process removes empty ones.
_RACES = 100


class LocalStore:
    """Files below a directory of this machine, or of a file system that it has mounted.

    Reading follows symbolic links; writing and deleting never go through one out of the root.
    """

    def __init__(
        self, root: str | os.PathLike[str], setting: str = "data.location (or --to)"
    ) -> None:
        """Keep files below a directory, which is made with the first of them.

        A fix for a disk that takes no more names the setting that says where that directory is.
        """
        self._explained = _Explain(setting)
        self.address = os.path.abspath(root)
        self._root = os.path.realpath(root)

    def read(self, path: str) -> bytes:
        """The whole of a small file; FileNotFoundError when there is none."""
        place = self._place(path)
        explained = self._explained(place, FileNotFoundError, fix="Check that it can be read")
        with explained, open_regular(place) as stream:
            return stream.read()

    def open_reader(self, path: str, start: int = 0) -> BinaryIO:
        """A stream from an offset on."""
        stream = open_regular(self._place(path))
        stream.seek(start)
        return stream

    def open_writer(self, path: str) -> BinaryIO:
        """A stream into a new file, which is there when the stream is closed without an error."""
        return StoreWriter(_FileSink(self._place_to_write(path), self._explained))

    def create(self, path: str, data: bytes) -> bool:
        """Create a small file whole; False, and nothing changed, when it is there already."""
        place = self._place_to_write(path)
        if os.path.lexists(place):
            return False
        sink = _FileSink(place, self._explained, link_once)
        try:
            sink.write(data)
            sink.commit()
        except FileExistsError:
            return False
        finally:
            sink.abort()
        return True

    def list(self, below: str = "", *, deep: bool = True) -> Iterator[StoredFile]:
        """All files below a path, in order of their paths; none that is not whole yet."""
        found = []
        for entry in self._entries(below, deep=deep):
            if not _UNFINISHED.fullmatch(entry.name):
                # Another process may have removed it since.
                with contextlib.suppress(FileNotFoundError):
                    found.append(StoredFile(self._path(entry), entry.stat().st_size))
        return iter(sorted(found, key=lambda file: file.path))

    def delete(self, paths: Iterable[str]) -> None:
        """Remove files, and directories that are empty then; one that is gone is no error."""
        emptied = set()
        for path in paths:
            place = self._place_to_write(path)
            with self._explained(place):
                place.unlink(missing_ok=True)
            emptied.add(place.parent)
        for directory in emptied:
            self._remove_empty(directory)

    def sync(self) -> None:
        """Have the names of files in the root, and the root's own, on the disk."""
        root = Path(self._root)
        for directory in (root, root.parent):
            with self._explained(directory):
                sync_directory(directory)

    def sweep(self, below: str = "", everything: bool = False) -> None:
        """Remove files that killed writers left unfinished below a path."""
        paths = []
        # Below the root may be anybody's directories; the one of our own is swept by its name.
        for entry in self._entries(below, deep=bool(below)):
            match = _UNFINISHED.fullmatch(entry.name)
            if match and (everything or is_dead(match["attempt"])):
                paths.append(self._path(entry))
        self.delete(paths)
        if everything and below:
            # One who was killed between a file and its directory left the directory, empty.
            for directory, _, _ in os.walk(self._place_to_write(below), topdown=False):
                self._remove_empty(Path(directory))

    def _place(self, path: str) -> Path:
        return Path(self._root, *path_parts(path, self.address))

    def _place_to_write(self, path: str) -> Path:
        """Where a path lies; raises UnsafePathError when a link leads out of the root."""
        place = self._place(path)
        if not Path(os.path.realpath(place.parent)).is_relative_to(self._root):
            raise UnsafePathError(
                f"{path!r} leads out of {self.address} through a symbolic link. "
                "Remove the link, or prepare the data into an empty directory."
            )
        return place

    def _path(self, entry: os.DirEntry[str]) -> str:
        return entry.path[len(os.path.join(self._root, "")) :]

    def _entries(self, below: str, *, deep: bool) -> Iterator[os.DirEntry[str]]:
        """Every file below a path; directories behind links are left out."""
        start = os.path.join(self._root, *path_parts(below, self.address)) if below else self._root
        waiting = [start]
        while waiting:
            directory = waiting.pop()
            try:
                with os.scandir(directory) as entries:
                    found = [*entries]
            except (FileNotFoundError, NotADirectoryError):
                # Gone, or a file, by the time it is looked into.
                continue
            except PermissionError as error:
                if directory == start:
                    raise StoreError(
                        f"{start}: {error.strerror}. Check that it can be read."
                    ) from error
                # Not ours, such as the lost+found of a file system: ours can be read.
                continue
            if deep:
                waiting += [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
            yield from (entry for entry in found if entry.is_file())

    def _remove_empty(self, directory: Path) -> None:
        """Remove a directory and those above it, below the root, as far as they are empty."""
        while directory != Path(self._root) and directory.is_relative_to(self._root):
            try:
                directory.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                return
            directory = directory.parent


class _FileSink(Sink):
    """A hidden file beside the one that it will be."""

    def __init__(
        self,
        place: Path,
        explained: "_Explain",
        move: Callable[[Path, Path], None] | None = None,
    ) -> None:
        self._place = place
        self._explained = explained
        self._move = move or os.replace
        self._hidden = place.with_name(f".seatrial-{new_attempt()}~{place.name}")
        with self._explained(place):
            self._stream = self._opened()

    def _opened(self) -> BinaryIO:
        for race in range(_RACES):
            try:
                make_directory(self._place.parent, 0o777)
                return self._hidden.open("xb", buffering=_BUFFER)
            except FileNotFoundError:
                if race == _RACES - 1:
                    raise
        raise AssertionError

    def write(self, data: Buffer) -> int:
        with self._explained(self._place):
            return self._stream.write(data)

    def fileno(self) -> int:
        """The number of the open file; what was written so far is in it."""
        self._stream.flush()
        return self._stream.fileno()

    def commit(self) -> None:
        """Give the file its name; what was written is on the disk before the name is."""
        with self._explained(self._place, FileExistsError):
            self._stream.flush()
            os.fsync(self._stream.fileno())
            self._stream.close()
            self._move(self._hidden, self._place)
            sync_directory(self._place.parent)

    def abort(self) -> None:
        # A stream that cannot be flushed, as on a full disk, is closed all the same.
        with contextlib.suppress(OSError):
            self._stream.close()
        self._hidden.unlink(missing_ok=True)


_KEPT = "start the same command again: what is finished is kept"
_ANEW = "and begin anew there"
_FIXES = {
    errno.ENOSPC: f"Make room and {_KEPT}. Or set {{setting}} to a larger disk {_ANEW}",
    errno.EDQUOT: f"Make room within the quota and {_KEPT}. Or set {{setting}} to a place with a "
    f"larger quota {_ANEW}",
    errno.EFBIG: f"Set {{setting}} to a file system that takes larger files {_ANEW}",
    errno.EROFS: "Nothing can be written there. Set {setting} to a directory that can be written",
    errno.ENOTDIR: "A part of this path is a file. Set {setting} to a directory, or a new one",
    errno.EEXIST: "A part of this path is a file. Set {setting} to a directory, or a new one",
    errno.EIO: f"The disk or its connection failed. Check it and {_KEPT}",
}


class _Explain:
    """Turns what the operating system refuses into an error with a fix."""

    def __init__(self, setting: str) -> None:
        self._setting = setting

    @contextlib.contextmanager
    def __call__(
        self,
        place: Path,
        *passing: type[OSError],
        fix: str = f"Check that the directory can be written, and {_KEPT}",
    ) -> Iterator[None]:
        try:
            yield
        except passing:
            raise
        except OSError as error:
            fix = _FIXES.get(error.errno or 0, fix).format(setting=self._setting)
            raise StoreError(f"{place}: {error.strerror or error}. {fix}.") from error
