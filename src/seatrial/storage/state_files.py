# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The only reader and writer of files that contain Seatrial's state.

A state file can be damaged: truncated by a power loss, edited, restored from a different location,
or replaced with a directory or a pipe. Reading never blocks, never uses more memory than
`MOST_BYTES`, and raises `DamagedError` in all these cases. Writing flushes the content to disk
before the rename: after a power loss, the file is the old or the new one.
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
"""Size limit. State files are much smaller: the largest, a run's plan, has a few kilobytes."""
MOST_NESTED = 100
"""Maximum nesting depth of JSON. Python's encoder, which digests use, fails near 1,000."""
FILE_MODE = 0o600
"""State contains host names, paths and environment variables: only the owner may read it."""
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
"""Length of the largest 64-bit integer: its digits and its sign."""
_LONGEST_STEM = 120
"""Characters of a file name that its temporary name repeats; file systems allow 255 bytes."""


class DamagedError(ValueError):
    """State is unusable. The message is the reason, as the end of a sentence."""


# ------------------------------------------------------------------------------------ reading


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a file for reading without blocking. Raises OSError if it is not a regular file."""
    return BufferedReader(FileIO(open_descriptor(path, os.O_RDONLY)), _BUFFER)


def open_append(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a log or lock file for appending, unbuffered and private to its owner. Never blocks."""
    return os.fdopen(open_descriptor(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "ab", buffering=0)


def read_state(path: str | os.PathLike[str], most: int = MOST_BYTES) -> bytes:
    """Read a whole state file.

    Raises FileNotFoundError if it is missing, and DamagedError if it cannot be used.
    """
    try:
        with open_regular(path) as stream:
            # Check the size first: a read of `most` bytes always allocates that much memory.
            size = os.fstat(stream.fileno()).st_size
            data = stream.read(min(size, most) + 1)
    except FileNotFoundError:
        raise
    except NotADirectoryError as error:
        # A parent is a file: report the state file as missing; a write reports the cause.
        raise FileNotFoundError(error.errno, error.strerror, error.filename) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise DamagedError(f"it cannot be read: {reason or error}") from error
    if len(data) > most:
        raise DamagedError(f"it is larger than {most:,} bytes")
    return data


def read_json(path: str | os.PathLike[str], most: int = MOST_BYTES) -> Any:
    """Read a JSON state file.

    Raises FileNotFoundError if it is missing, and DamagedError if it cannot be used.
    """
    return parse_json(read_state(path, most))


def parse_json(data: bytes | str) -> Any:
    """Parse JSON from a source that may be damaged or hostile. Raises DamagedError.

    Rejects values that would fail later: non-finite numbers, deep nesting, and text that cannot be
    printed (half of a surrogate pair) or be part of a path (NUL).
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
    """Create a dataclass from parsed JSON and check the field types. Raises DamagedError.

    Ignores unknown fields: a newer version of Seatrial may write more fields.
    """
    if not isinstance(value, dict):
        raise DamagedError(f"it contains {_shown(value)} instead of an object")
    hints, made = get_type_hints(kind), {}
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name in value:
            made[field.name] = _decoded(hints[field.name], value[field.name], field.name)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise DamagedError(f"{field.name} is missing")
    return kind(**made)


def _decoded(kind: Any, value: Any, name: str) -> Any:
    """Convert a value to its type. Supports only the types that state uses."""
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
    """Format a value for a message: short, and quoted like JSON."""
    text = json.dumps(redact_tree(value))
    return text if len(text) <= 60 else f"{text[:57]}..."


def _refuse_constant(name: str) -> float:
    raise DamagedError(f"it contains {name}, which is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise DamagedError(f"it contains {text[:20]}, which is too large for a number")
    return number


def _small(text: str) -> int:
    """Parse an integer that fits in 64 bits; Python refuses to convert thousands of digits."""
    if len(text) > _MOST_DIGITS or not -(2**63) <= int(text) < 2**63:
        raise DamagedError(f"it contains {text[:20]}..., which is too large for a number")
    return int(text)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite, parse_int=_small)


def _refuse_unusable(value: Any) -> None:
    """Reject deep nesting and unusable text, without recursion."""
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
        raise DamagedError("a string in it contains a NUL character")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DamagedError("a string in it contains half of a surrogate pair") from None


def open_descriptor(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file without blocking. Raises OSError if it is not a regular file."""
    # Without O_NONBLOCK, opening a pipe would block forever.
    flags |= os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    number = os.open(path, flags, FILE_MODE)
    kind = stat.S_IFMT(os.fstat(number).st_mode)
    if kind != stat.S_IFREG:
        os.close(number)
        what = _KINDS.get(kind, "a special file")
        raise OSError(errno.EINVAL, f"it is {what}, not a file", os.fspath(path))
    return number


# ------------------------------------------------------------------------------------ writing


def write_state(path: Path, data: str | bytes, *, durable: bool = True) -> None:
    """Replace a state file atomically, private to its owner. Creates its directory if needed.

    With `durable=False`, it does not wait for the disk: use it for state that a reboot invalidates.
    """
    make_directory(path.parent)
    _write(path, data, os.replace, FILE_MODE, durable=durable)


def create_state(path: Path, data: str | bytes) -> None:
    """Create a state file atomically. Raises FileExistsError if it exists: one creator wins."""
    make_directory(path.parent)
    _write(path, data, link_once, FILE_MODE)


def write_whole(path: Path, text: str) -> None:
    """Replace a user's file atomically. Keeps its permissions."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        mode = None
    _write(path, text, os.replace, mode)


def make_directory(path: Path, mode: int = DIRECTORY_MODE) -> None:
    """Create a directory and its missing parents, by default private to the owner."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        if path.parent == path:
            break
        path = path.parent
    for each in reversed(missing):
        try:
            # Another process may create it first.
            each.mkdir(mode, exist_ok=True)
        except FileExistsError:
            # Do not confuse this with a state file that already exists.
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(each)) from None
        sync_directory(each.parent)


def link_once(hidden: Path, path: Path) -> None:
    """Rename a file. Raises FileExistsError if the name exists: exactly one process wins."""
    try:
        # A link fails if the name exists; a rename would replace the file.
        os.link(hidden, path)
    except OSError as error:
        if error.errno not in (errno.EPERM, *_UNSUPPORTED):
            raise
        # The file system has no hard links: FAT, SMB shares such as Azure Files, most FUSE file
        # systems. Reserve the name with an empty file, which only one process can create, and then
        # replace that file. A kill in between leaves an empty file, which readers treat as damaged.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        os.replace(hidden, path)


def sync_directory(directory: Path) -> None:
    """Flush a directory's entries to disk, if its file system supports this."""
    try:
        number = os.open(directory, os.O_RDONLY)
    except (FileNotFoundError, PermissionError):
        # The directory was deleted because it was empty, or it is writable but not readable.
        return
    try:
        os.fsync(number)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF, *_UNSUPPORTED):
            raise
    finally:
        os.close(number)


def _temporary_name(path: Path) -> Path:
    """Return a hidden name next to a path that is unique across processes and hosts."""
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
                # Set the mode independently of the umask; shares without permissions reject it.
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
