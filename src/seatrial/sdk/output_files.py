# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Output files for users, written atomically."""

import hashlib
import os
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from seatrial.errors import UsageError
from seatrial.storage.state_files import read_state, write_whole


def refuse_existing(path: Path, *, force: bool) -> None:
    """Refuse to overwrite an existing file, unless `force` is set."""
    if not force and os.path.lexists(path) and not _is_device(path):
        raise UsageError(f"{path} exists. Choose a different name, or overwrite it with --force.")


def write_new(path: Path, text: str, *, force: bool) -> None:
    """Write a file atomically, so that a failure leaves the old one intact."""
    refuse_existing(path, force=force)
    try:
        if _is_device(path):
            path.write_text(text, encoding="utf-8")
        else:
            write_whole(path.resolve(), text)
    except OSError as error:
        above = path.resolve().parent
        if not above.exists():
            raise UsageError(
                f"cannot write {path}: the directory {above} does not exist. "
                f"Create it: mkdir -p {shlex.quote(str(above))}"
            ) from None
        raise UsageError(f"cannot write {path}: {error.strerror}.") from None


def _is_device(path: Path) -> bool:
    """True for a device such as /dev/stdout, which must not be replaced with a file."""
    return path.exists() and not path.is_file() and not path.is_dir()


RECORD = ".seatrial-render"
"""The record of the last render, in the format of sha256sum. It has no suffix, because
`kubectl apply -f DIR` reads every .yaml and .json file."""
_NAMED = 5


def write_directory(directory: Path, files: Mapping[str, str], *, force: bool) -> None:
    """Write files to a directory, replacing only unchanged files of the last render.

    A file is replaced only if the record lists it and its content still matches the record.
    """
    there = _existing(directory)
    recorded = _recorded(directory)
    kept = [name for name, path in there.items() if _digest(path) != recorded.get(name, "-")]
    if kept:
        more = f" and {len(kept) - _NAMED} more" if len(kept) > _NAMED else ""
        raise UsageError(
            f"{directory} contains files that render did not write or that were edited since: "
            f"{', '.join(kept[:_NAMED])}{more}. No file was changed. "
            "Move these files, or choose a different directory."
        )
    if there and not force:
        raise UsageError(f"{directory} already has files. Use --force to replace them.")
    for path in there.values():
        path.unlink()
    parents = sorted({directory, *((directory / name).parent for name in files)})
    new = [parent for parent in parents if not parent.exists()]
    try:
        for parent in parents:
            _make_directory(parent)
        # The record comes first, so that an interrupted render knows its files.
        digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
        lines = sorted(f"{digest}  {name}\n" for name, digest in digests.items())
        write_new(directory / RECORD, "".join(lines), force=True)
        for name, text in files.items():
            write_new(directory / name, text, force=False)
    except UsageError:
        for parent in reversed(new):
            # A directory that has files stays, with its record.
            with suppress(OSError):
                parent.rmdir()
        raise


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot create {path}: {error.strerror}.") from None


def _existing(directory: Path) -> dict[str, Path]:
    """Return the files below a directory by relative name, without the record. Links count."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file. Pass a directory.")
    found = {
        path.relative_to(directory).as_posix(): path
        for path in sorted(directory.rglob("*"))
        if path.is_symlink() or not path.is_dir()
    }
    found.pop(RECORD, None)
    return found


def _recorded(directory: Path) -> dict[str, str]:
    """Return the digests of the last render's files. Empty without a readable record."""
    try:
        text = read_state(directory / RECORD).decode()
    except (OSError, ValueError):
        return {}
    lines = (line.partition("  ") for line in text.splitlines())
    return {name: digest for digest, _, name in lines}


def _digest(path: Path) -> str:
    """Return a file's digest. Empty for a link or an unreadable file."""
    if os.path.islink(path):
        return ""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
