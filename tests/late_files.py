# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a mount that shows files of another node late, as BlobFuse2 and gcsfuse do.

It is no file system: it replaces the functions of this process that look at files, so that they
deny chosen files for a time. The kernel's and the mount's own caches are not tested.
"""

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


class LateFiles:
    """Denies each of the files until a time after the first look at it."""

    def __init__(self, is_late: Callable[[str], bool], seconds: float) -> None:
        self._is_late, self._seconds = is_late, seconds
        self._first: dict[str, float] = {}
        self.denied = 0

    def _is_hidden(self, path: object) -> bool:
        name = os.path.basename(str(path))
        if not self._is_late(name):
            return False
        hidden = time.monotonic() < self._first.setdefault(name, time.monotonic()) + self._seconds
        self.denied += hidden
        return hidden

    def install(self, replace: Callable[[Any, str, Any], None]) -> None:
        """Replace the functions, with `monkeypatch.setattr` or `setattr`."""
        stat, list_directory, open_file = Path.stat, os.listdir, Path.open

        def late_stat(path: Path, **how: Any) -> os.stat_result:
            if self._is_hidden(path):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            return stat(path, **how)

        def late_open(path: Path, mode: str = "r", *how: Any, **more: Any) -> Any:
            if mode.startswith("r") and self._is_hidden(path):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            return open_file(path, mode, *how, **more)

        replace(Path, "stat", late_stat)
        replace(Path, "exists", lambda path: not self._is_hidden(path) and _exists(path))
        replace(Path, "open", late_open)
        replace(
            os,
            "listdir",
            lambda path: [name for name in list_directory(path) if not self._is_hidden(name)],
        )


def _exists(path: Path) -> bool:
    return os.access(path, os.F_OK)
