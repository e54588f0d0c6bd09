# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The files that rendering writes, and the record by which it knows them again."""

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from seatrial.cli.files import write_new
from seatrial.errors import UsageError

RECORD = ".seatrial-render"
"""The record of the last render: a line for each file, as sha256sum has it. Without an ending, for
`kubectl apply -f DIR` reads every file whose name ends in .yaml or .json."""
_NAMED = 5


def write_directory(directory: Path, files: Mapping[str, str], *, force: bool) -> None:
    """Write files below a directory; what the last render left there goes, nothing else.

    A name does not tell whose a file is, and a file that was edited since is its editor's: only
    one that the record lists and whose content is still that of the record is replaced.
    """
    there = _existing(directory)
    recorded = _recorded(directory)
    kept = [name for name, path in there.items() if _digest(path) != recorded.get(name, "-")]
    if kept:
        more = f" and {len(kept) - _NAMED} more" if len(kept) > _NAMED else ""
        raise UsageError(
            f"{directory} holds what no render has written, or what was changed since: "
            f"{', '.join(kept[:_NAMED])}{more}. Nothing was touched. "
            "Move it away, or choose a directory of its own."
        )
    if there and not force:
        raise UsageError(f"{directory} has files already. Replace them by --force.")
    for path in there.values():
        path.unlink()
    parents = sorted({directory, *((directory / name).parent for name in files)})
    new = [parent for parent in parents if not parent.exists()]
    try:
        for parent in parents:
            _make_directory(parent)
        # Before the files: a render that was interrupted knows what it has written.
        digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
        lines = sorted(f"{digest}  {name}\n" for name, digest in digests.items())
        write_new(directory / RECORD, "".join(lines), force=True)
        for name, text in files.items():
            write_new(directory / name, text, force=False)
    except UsageError:
        for parent in reversed(new):
            # What has a file in it stays, with its record.
            with suppress(OSError):
                parent.rmdir()
        raise


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be made: {error.strerror}.") from None


def _existing(directory: Path) -> dict[str, Path]:
    """The files below a directory by their names there, without the record; links are files."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file. Give a directory.")
    found = {
        path.relative_to(directory).as_posix(): path
        for path in sorted(directory.rglob("*"))
        if path.is_symlink() or not path.is_dir()
    }
    found.pop(RECORD, None)
    return found


def _recorded(directory: Path) -> dict[str, str]:
    """The digests of what the last render wrote; nothing without a record that can be read."""
    try:
        text = (directory / RECORD).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    lines = (line.partition("  ") for line in text.splitlines())
    return {name: digest for digest, _, name in lines}


def _digest(path: Path) -> str:
    """The digest of a file; nothing for what is no file of ours, such as a link."""
    if os.path.islink(path):
        return ""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
