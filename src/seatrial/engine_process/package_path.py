# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The Python path for a process in another environment, so that it imports this Seatrial.

Imports no other module of Seatrial: the supervisor of a run on this host needs a fast start.
"""

import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

PACKAGE = Path(__file__).parents[1]
"""This Seatrial. The worker's environment runs the same code."""


@cache
def _linked_package() -> TemporaryDirectory[str]:
    """Return a directory that contains only a link to this Seatrial, removed at exit.

    Its installation directory may contain packages for another Python.
    """
    directory = TemporaryDirectory(prefix="seatrial-")
    (Path(directory.name) / PACKAGE.name).symlink_to(PACKAGE)
    return directory


def python_path() -> str:
    """Return the PYTHONPATH of a worker: this Seatrial, then the user's PYTHONPATH."""
    return os.pathsep.join(filter(None, (_linked_package().name, os.environ.get("PYTHONPATH"))))
