# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The one reader and the one writer of the files in which Seatrial keeps state.

A state file can be damaged: cut short by a power cut, edited, restored from elsewhere, replaced by
a directory or a pipe. Reading never blocks, never takes more memory than `MOST_BYTES` and raises
`DamagedError`, whatever is there. Writing puts the whole file on the disk, then its name: after a
power cut there is the old file or the new one.
"""

import errno
import json
import math
import os
import secrets
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from io import BufferedReader, FileIO
from pathlib import Path
from types import UnionType
from typing import Any, BinaryIO, get_args, get_origin, get_type_hints

from seatrial.secrets.redaction import redact_tree

MOST_BYTES = 64 * 2**20
"""State files are smaller by far: the plan of a run, the largest of them, takes some kilobytes."""
MOST_NESTED = 100
"""How deep JSON may nest. Python's encoder, which digests need, fails near 1,000."""
FILE_MODE = 0o600
"""State names hosts, paths and environment variables: it is for its owner only."""
DIRECTORY_MODE = 0o700
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_UNSUPPORTED = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_BUFFER = 2**20
_MOST_DIGITS = 20
"""Digits and sign of the largest integer of 64 bits."""
_LONGEST_STEM = 120
"""Characters of a file's name that its temporary name repeats; file systems allow 255 bytes."""


class DamagedError(ValueError):
    """State cannot be used as it is; the text says why, as the end of a sentence about it."""


# ------------------------------------------------------------------------------------ reading


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a file for reading without ever waiting; raises OSError for anything but a file."""
    return BufferedReader(FileIO(open_descriptor(path, os.O_RDONLY)), _BUFFER)


def open_append(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a log or a lock for appending, unbuffered, made for its owner only; never waits."""
    return os.fdopen(open_descriptor(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "ab", buffering=0)


def read_state(path: str | os.PathLike[str], most: int = MOST_BYTES) -> bytes:
    """Read a whole state file; raises FileNotFoundError if it is missing, else DamagedError."""
    try:
        with open_regular(path) as stream:
            # Its size first: a read of `most` bytes would allocate all of them for a small file.
            size = os.fstat(stream.fileno()).st_size
            data = stream.read(min(size, most) + 1)
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:
        # A directory above it is a file: whoever wants to write there is told so.
        raise FileNotFoundError(error.errno, error.strerror, error.filename) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise DamagedError(f"it cannot be read: {reason or error}") from error
    if len(data) > most:
        raise DamagedError(f"it is larger than {most:,} bytes")
    return data


def read_json(path: str | os.PathLike[str], most: int = MOST_BYTES) -> Any:
    """Read a JSON state file; raises FileNotFoundError if it is missing, else DamagedError."""
    return parse_json(read_state(path, most))


def parse_json(data: bytes | str) -> Any:
    """Parse JSON from a source that may be damaged or hostile; raises DamagedError.

    Refuses what would fail only later: numbers that are not finite, deep nesting, and text that
    cannot be printed (half of a surrogate pair) or be part of a path (NUL).
    """
    try:
        text = data.decode() if isinstance(data, bytes) else data
        value = _DECODER.decode(text)
    except RecursionError:
        raise DamagedError(f"its JSON nests more than {MOST_NESTED} levels deep") from None
    except UnicodeDecodeError:
        raise DamagedError("it is not UTF-8 text") from None
    except DamagedError:
        raise
    except json.JSONDecodeError as error:
        what = "it is empty" if not text.strip() else f"it is not JSON: {error}"
        raise DamagedError(what) from None
    _refuse_unusable(value)
    return value


def decode[T](kind: type[T], value: Any) -> T:
    """Make a dataclass from parsed JSON, each field of its declared type; raises DamagedError.

    Fields that the class does not have are ignored: a newer Seatrial may write more.
    """
    if not isinstance(value, dict):
        raise DamagedError(f"it holds {_shown(value)} where an object is expected")
    hints, made = get_type_hints(kind), {}
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in value:
            made[field.name] = _decoded(hints[field.name], value[field.name], field.name)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise DamagedError(f"{field.name} is missing")
    return kind(**made)


def _decoded(kind: Any, value: Any, name: str) -> Any:
    """The value as its type; the types that fields of state have, and no others."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType and type(None) in inner:
        other = next(one for one in inner if one is not type(None))
        return None if value is None else _decoded(other, value, name)
    if origin is tuple and isinstance(value, list):
        return tuple(_decoded(inner[0], each, name) for each in value)
    if origin is not None and origin is not tuple and isinstance(value, dict):
        return {
            _decoded(inner[0], key, name): _decoded(inner[1], each, name)
            for key, each in value.items()
        }
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, dict):
        return decode(kind, value)
    if origin is None and issubclass(kind, Enum):
        with suppress(ValueError):
            return kind(value)
    elif kind is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        with suppress(OverflowError):
            return float(value)
    elif origin is None and isinstance(value, kind) and isinstance(value, bool) == (kind is bool):
        return value
    raise DamagedError(f"{name} is {_shown(value)}")


def _shown(value: Any) -> str:
    """A value in a message: short, and quoted as JSON is."""
    text = json.dumps(redact_tree(value))
    return text if len(text) <= 60 else f"{text[:57]}..."


def _refuse_constant(name: str) -> float:
    raise DamagedError(f"it holds {name}, which is not a number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise DamagedError(f"it holds {text[:20]}, which is too large for a number")
    return number


def _small(text: str) -> int:
    """The integer, if 64 bits hold it; Python itself refuses to convert thousands of digits."""
    if len(text) > _MOST_DIGITS or not -(2**63) <= int(text) < 2**63:
        raise DamagedError(f"it holds {text[:20]}..., which is too large for a number")
    return int(text)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite, parse_int=_small)


def _refuse_unusable(value: Any) -> None:
    """Refuse deep nesting and unusable text, without recursion of our own."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MOST_NESTED:
            raise DamagedError(f"its JSON nests more than {MOST_NESTED} levels deep")
        below: list[Any] = []
        for one in level:
            if isinstance(one, str):
                _refuse_text(one)
            elif isinstance(one, list):
                below += one
            elif isinstance(one, dict):
                below += (*one.keys(), *one.values())
        level = below


def _refuse_text(text: str) -> None:
    if text.isascii() and "\0" not in text:
        return
    if "\0" in text:
        raise DamagedError("a text in it holds a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DamagedError("a text in it holds half of a character") from None


def open_descriptor(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file without ever waiting; raises OSError for anything but a regular file."""
    # A pipe without O_NONBLOCK would be waited for, for ever.
    flags |= os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    number = os.open(path, flags, FILE_MODE)
    kind = stat.S_IFMT(os.fstat(number).st_mode)
    if kind != stat.S_IFREG:
        os.close(number)
        what = _KINDS.get(kind, "no regular file")
        raise OSError(errno.EINVAL, f"it is {what}, not a file", os.fspath(path))
    return number


# ------------------------------------------------------------------------------------ writing


def write_state(path: Path, data: str | bytes, *, durable: bool = True) -> None:
    """Replace a state file whole, for its owner only, making its directory if it is missing.

    Without `durable` the disk is not waited for: for what nobody needs after the host restarts.
    """
    make_directory(path.parent)
    _write(path, data, os.replace, FILE_MODE, durable=durable)


def create_state(path: Path, data: str | bytes) -> None:
    """Create a state file whole; raises FileExistsError if the name is taken: of two, one wins."""
    make_directory(path.parent)
    _write(path, data, link_once, FILE_MODE)


def write_whole(path: Path, text: str) -> None:
    """Replace a file that the user named, whole; it keeps its permissions."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        mode = None
    _write(path, text, os.replace, mode)


def make_directory(path: Path, mode: int = DIRECTORY_MODE) -> None:
    """Make a directory and those above that are missing; for state, for their owner only."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        if path.parent == path:
            break
        path = path.parent
    for each in reversed(missing):
        try:
            # Another process may be faster.
            each.mkdir(mode, exist_ok=True)
        except FileExistsError:
            # Not to be taken for a state file that exists already.
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(each)) from None
        sync_directory(each.parent)


def link_once(hidden: Path, path: Path) -> None:
    """Give a file its name; raises FileExistsError if that is taken: of two, exactly one wins."""
    try:
        # A link fails where a rename would replace.
        os.link(hidden, path)
    except OSError as error:
        if error.errno not in (errno.EPERM, *_UNSUPPORTED):
            raise
        # No hard links: FAT, shares over SMB such as Azure Files, most of FUSE. There the name is
        # taken by an empty file, which only one can create, and the whole file then replaces it.
        # A kill in between leaves the empty file, which readers take for damaged.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        os.replace(hidden, path)


def sync_directory(directory: Path) -> None:
    """Have the names in a directory on the disk, where its file system can do that."""
    try:
        number = os.open(directory, os.O_RDONLY)
    except (FileNotFoundError, PermissionError):
        # Removed since, empty; or one that we may write to and not read.
        return
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF, *_UNSUPPORTED):
            raise
    finally:
        os.close(number)


def _temporary_name(path: Path) -> Path:
    """A hidden name beside a path that no other process has, on this host or on another."""
    host = socket.gethostname().partition(".")[0][:40]
    unique = f"{host}-{os.getpid()}-{secrets.token_hex(6)}"
    return path.with_name(f".{path.name[:_LONGEST_STEM]}.{unique}")


def _write(
    path: Path,
    data: str | bytes,
    name: Callable[[Path, Path], None],
    mode: int | None,
    *,
    durable: bool = True,
) -> None:
    hidden = _temporary_name(path)
    try:
        number = os.open(hidden, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode or 0o666)
        with os.fdopen(number, "wb") as stream:
            stream.write(data.encode() if isinstance(data, str) else data)
            stream.flush()
            if mode is not None:
                # Whatever the umask is; shares without permissions refuse it.
                with suppress(OSError):
                    os.fchmod(stream.fileno(), mode)
            if durable:
                os.fsync(stream.fileno())
        name(hidden, path)
        if durable:
            sync_directory(path.parent)
    finally:
        with suppress(OSError):
            hidden.unlink(missing_ok=True)
