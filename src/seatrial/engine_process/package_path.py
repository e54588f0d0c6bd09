# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Where a process that is started in another environment finds this Seatrial.

It imports nothing of Seatrial: the supervisor of a run on this host needs it, and starts at once.
"""

import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

PACKAGE = Path(__file__).parents[1]
"""This Seatrial, so that the worker's environment runs the same one."""


@cache
def _linked_package() -> TemporaryDirectory[str]:
    """A directory with nothing but a link to this Seatrial, removed at the end of the process.

    The directory that it is installed in may hold other packages of another Python.
    """
    directory = TemporaryDirectory(prefix="seatrial-")
    (Path(directory.name) / PACKAGE.name).symlink_to(PACKAGE)
    return directory


def python_path() -> str:
    """The search path of a worker: this Seatrial, then what the user has set."""
    return os.pathsep.join(filter(None, (_linked_package().name, os.environ.get("PYTHONPATH"))))
