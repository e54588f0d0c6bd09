# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Files that calls write for their users: whole or not at all."""

import os
import shlex
from pathlib import Path

from seatrial.errors import UsageError
from seatrial.storage.state_files import write_whole


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
            write_whole(path.resolve(), text)
    except OSError as error:
        above = path.resolve().parent
        if not above.exists():
            raise UsageError(
                f"{path} cannot be written: there is no directory {above}. "
                f"Make it: mkdir -p {shlex.quote(str(above))}"
            ) from None
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from None


def _is_device(path: Path) -> bool:
    """Whether it is something like /dev/stdout, which must not be replaced by a file."""
    return path.exists() and not path.is_file() and not path.is_dir()
