# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Output files for users, written atomically."""

import os
import shlex
from pathlib import Path

from seatrial.errors import UsageError
from seatrial.storage.state_files import write_whole


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
