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
# How often a directory may vanish before a file is created: other processes delete empty ones.
_RACES = 100


class LocalStore:
    """Files below a directory on this machine or on a mounted file system.

    Reads follow symbolic links; writes and deletions never follow a link out of the root.
    """

    def __init__(
        self, root: str | os.PathLike[str], setting: str = "data.location (or --to)"
    ) -> None:
        """Store files below a directory, which is created with the first file.

        `setting` is the setting for this directory. Error messages about a full disk contain it.
        """
        self._explained = _Explain(setting)
        self.address = os.path.abspath(root)
        self._root = os.path.realpath(root)

    def read(self, path: str) -> bytes:
        """Read a small file. Raises FileNotFoundError if it does not exist."""
        place = self._place(path)
        explained = self._explained(place, FileNotFoundError, fix="Check that the file is readable")
        with explained, open_regular(place) as stream:
            return stream.read()

    def open_reader(self, path: str, start: int = 0) -> BinaryIO:
        """Open a stream at an offset."""
        stream = open_regular(self._place(path))
        stream.seek(start)
        return stream

    def open_writer(self, path: str) -> BinaryIO:
        """Open a stream to a new file, which appears when the stream is closed without an error."""
        return StoreWriter(_FileSink(self._place_to_write(path), self._explained))

    def create(self, path: str, data: bytes) -> bool:
        """Create a small file atomically. Return False, without a change, if it already exists."""
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
        """List all complete files below a path, sorted by path."""
        found = []
        for entry in self._entries(below, deep=deep):
            if not _UNFINISHED.fullmatch(entry.name):
                # Another process may have deleted it.
                with contextlib.suppress(FileNotFoundError):
                    found.append(StoredFile(self._path(entry), entry.stat().st_size))
        return iter(sorted(found, key=lambda file: file.path))

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files, and directories that become empty. Missing files are not an error."""
        emptied = set()
        for path in paths:
            place = self._place_to_write(path)
            with self._explained(place):
                place.unlink(missing_ok=True)
            emptied.add(place.parent)
        for directory in emptied:
            self._remove_empty(directory)

    def sync(self) -> None:
        """Flush the root directory and its entry in the parent directory to disk."""
        root = Path(self._root)
        for directory in (root, root.parent):
            with self._explained(directory):
                sync_directory(directory)

    def sweep(self, below: str = "", everything: bool = False) -> None:
        """Delete unfinished files from killed writers below a path."""
        paths = []
        # The root may contain other directories, so sweep only Seatrial's, by name.
        for entry in self._entries(below, deep=bool(below)):
            match = _UNFINISHED.fullmatch(entry.name)
            if match and (everything or is_dead(match["attempt"])):
                paths.append(self._path(entry))
        self.delete(paths)
        if everything and below:
            # A kill between creating a directory and its file leaves an empty directory.
            for directory, _, _ in os.walk(self._place_to_write(below), topdown=False):
                self._remove_empty(Path(directory))

    def _place(self, path: str) -> Path:
        return Path(self._root, *path_parts(path, self.address))

    def _place_to_write(self, path: str) -> Path:
        """Resolve a path. Raises UnsafePathError if a link points outside the root."""
        place = self._place(path)
        if not Path(os.path.realpath(place.parent)).is_relative_to(self._root):
            raise UnsafePathError(
                f"{path!r} points outside {self.address} through a symbolic link. "
                "Remove the link, or prepare the data in an empty directory."
            )
        return place

    def _path(self, entry: os.DirEntry[str]) -> str:
        return entry.path[len(os.path.join(self._root, "")) :]

    def _entries(self, below: str, *, deep: bool) -> Iterator[os.DirEntry[str]]:
        """Yield every file below a path. Does not follow links to directories."""
        start = os.path.join(self._root, *path_parts(below, self.address)) if below else self._root
        waiting = [start]
        while waiting:
            directory = waiting.pop()
            try:
                with os.scandir(directory) as entries:
                    found = [*entries]
            except (FileNotFoundError, NotADirectoryError):
                # Deleted, or replaced by a file, in the meantime.
                continue
            except PermissionError as error:
                if directory == start:
                    raise StoreError(
                        f"{start}: {error.strerror}. Check that the directory is readable."
                    ) from error
                # A foreign directory, such as lost+found: Seatrial's own directories are readable.
                continue
            if deep:
                waiting += [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
            yield from (entry for entry in found if entry.is_file())

    def _remove_empty(self, directory: Path) -> None:
        """Delete a directory and its parents below the root, as long as they are empty."""
        while directory != Path(self._root) and directory.is_relative_to(self._root):
            try:
                directory.rmdir()
            except FileNotFoundError:
                pass
            except OSError:
                return
            directory = directory.parent


class _FileSink(Sink):
    """A hidden file next to the final one."""

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
        """Flush and return the file descriptor."""
        self._stream.flush()
        return self._stream.fileno()

    def commit(self) -> None:
        """Rename the file. Its content is on disk before the new name."""
        with self._explained(self._place, FileExistsError):
            self._stream.flush()
            os.fsync(self._stream.fileno())
            self._stream.close()
            self._move(self._hidden, self._place)
            sync_directory(self._place.parent)

    def abort(self) -> None:
        # Close a stream even if it cannot be flushed, as on a full disk.
        with contextlib.suppress(OSError):
            self._stream.close()
        self._hidden.unlink(missing_ok=True)


_KEPT = "rerun the same command: finished work is kept"
_ANEW = "and start from scratch"
_FIXES = {
    errno.ENOSPC: f"Free some space and {_KEPT}. Or set {{setting}} to a larger disk {_ANEW}",
    errno.EDQUOT: f"Free some quota and {_KEPT}. Or set {{setting}} to a location with a "
    f"larger quota {_ANEW}",
    errno.EFBIG: f"Set {{setting}} to a file system that supports larger files {_ANEW}",
    errno.EROFS: "Set {setting} to a writable directory",
    errno.ENOTDIR: "Part of this path is a file. Set {setting} to an existing or new directory",
    errno.EEXIST: "Part of this path is a file. Set {setting} to an existing or new directory",
    errno.EIO: f"The disk or its connection failed. Check the disk and {_KEPT}",
}


class _Explain:
    """Converts operating system errors to errors with a fix."""

    def __init__(self, setting: str) -> None:
        self._setting = setting

    @contextlib.contextmanager
    def __call__(
        self,
        place: Path,
        *passing: type[OSError],
        fix: str = f"Check that the directory is writable, and {_KEPT}",
    ) -> Iterator[None]:
        try:
            yield
        except passing:
            raise
        except OSError as error:
            fix = _FIXES.get(error.errno or 0, fix).format(setting=self._setting)
            raise StoreError(f"{place}: {error.strerror or error}. {fix}.") from error
