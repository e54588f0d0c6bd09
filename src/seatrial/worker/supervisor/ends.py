# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""With which exit code a rank ended, told by itself beside its heartbeat.

torchrun, once it was asked to end, says of its ranks neither that they saved nor that they failed.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from seatrial.worker.ending import meant_code
from seatrial.worker.supervisor.beats import DIRECTORY


@contextmanager
def telling_end() -> Iterator[None]:
    """Tell the supervisor, where there is one, how this process ends; one that is killed cannot."""
    code = 0
    try:
        yield
    except SystemExit as end:
        code = meant_code(end.code)
        raise
    except BaseException:
        code = 1
        raise
    finally:
        directory = os.environ.get(DIRECTORY)
        if directory:
            with suppress(OSError):
                Path(directory, f"end-{os.getpid()}").write_text(f"{code}\n", encoding="ascii")


def read_ends(directory: Path) -> dict[int, int]:
    """The exit codes that processes of this node have told, by process."""
    found = {}
    for path in directory.glob("end-*"):
        with suppress(OSError, ValueError):
            found[int(path.name.removeprefix("end-"))] = int(path.read_text(encoding="ascii"))
    return found


def forget_ends(directory: Path) -> None:
    """Remove what processes told that are no more."""
    for path in directory.glob("end-*"):
        with suppress(OSError):
            path.unlink()
