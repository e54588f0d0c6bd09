# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Files that commands write: whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from seatrial.errors import UsageError

Force = Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")]
"""Replace the file if it exists."""


def refuse_existing(path: Path, *, force: bool) -> None:
    """Refuse a file that exists, unless told to replace it."""
    if not force and os.path.lexists(path) and not _is_device(path):
        raise UsageError(f"{path} exists. Choose another name, or replace it by --force.")


def write_new(path: Path, text: str, *, force: bool) -> None:
    """Write a file: first beside its place, so that a failure leaves what was there before."""
    refuse_existing(path, force=force)
    try:
        if _is_device(path):
            path.write_text(text, encoding="utf-8")
        else:
            _write_beside(path.resolve(), text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None


def _is_device(path: Path) -> bool:
    """Whether it is something like /dev/stdout, which must not be replaced by a file."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _write_beside(path: Path, text: str) -> None:
    """Write a new file in the same directory and give it the name."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("x", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        if path.exists():
            beside.chmod(path.stat().st_mode & 0o777)
        beside.replace(path)
    except OSError:
        with suppress(OSError):
            beside.unlink()
        raise
