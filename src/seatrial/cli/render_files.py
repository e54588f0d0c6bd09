# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The files that rendering writes."""

import re
from collections.abc import Mapping
from pathlib import Path

from seatrial.cli.files import write_new
from seatrial.errors import UsageError

_OURS = re.compile(r"\d{2,}-[a-z]+-[a-z0-9.-]+\.yaml")
_ALSO_OURS = frozenset(("kustomization.yaml", "Chart.yaml", "values.yaml", "values.schema.json"))


def write_directory(directory: Path, files: Mapping[str, str], *, force: bool) -> None:
    """Write files below a directory; what an earlier render left there goes, nothing else."""
    there = _existing(directory)
    strangers = [path for path in there if not _is_ours(path)]
    if strangers:
        raise UsageError(
            f"{directory} holds {strangers[0].name}, which no render has written. "
            "Choose a directory of its own."
        )
    if there and not force:
        raise UsageError(f"{directory} has files already. Replace them by --force.")
    for path in there:
        path.unlink()
    for name, text in files.items():
        target = directory / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{target.parent} cannot be made: {error.strerror}.") from None
        write_new(target, text, force=force)


def _existing(directory: Path) -> list[Path]:
    """The files below a directory."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file. Give a directory.")
    return [path for path in directory.rglob("*") if not path.is_dir()]


def _is_ours(path: Path) -> bool:
    return path.name in _ALSO_OURS or _OURS.fullmatch(path.name) is not None
