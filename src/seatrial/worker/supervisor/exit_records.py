# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""With which exit code a rank ended, told by itself beside its heartbeat.

torchrun, once it was asked to end, says of its ranks neither that they saved nor that they failed.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from seatrial.storage.state_files import DamagedError, decode, read_json, read_state, write_state
from seatrial.worker.process import meant_code
from seatrial.worker.supervisor.heartbeats import DIRECTORY

_LONGEST = 20
"""Bytes of an exit code."""


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
                # Read within seconds by the supervisor of this host, and by nobody after it.
                write_state(Path(directory, f"end-{os.getpid()}"), f"{code}\n", durable=False)


def read_ends(directory: Path) -> dict[int, int]:
    """The exit codes that processes of this node have told, by process."""
    found = {}
    for path in directory.glob("end-*"):
        with suppress(OSError, ValueError):
            found[int(path.name.removeprefix("end-"))] = int(read_state(path, _LONGEST))
    return found


def forget_ends(directory: Path) -> None:
    """Remove what processes told that are no more."""
    for path in directory.glob("end-*"):
        with suppress(OSError):
            path.unlink()


_NAME = "final.json"


@dataclass(frozen=True, slots=True)
class Final:
    """How an attempt came to its end."""

    attempt: str
    """The attempt, by the name that its nodes meet under."""
    code: int
    """The exit code of its processes."""


def remember(directory: Path, final: Final) -> None:
    """Keep it; where that cannot be written, the next start finds out by itself."""
    with suppress(OSError):
        write_state(directory / _NAME, json.dumps(asdict(final)))


def remembered(directory: Path, attempt: str) -> Final | None:
    """How this very attempt has ended before; nothing where it has not."""
    try:
        final = decode(Final, read_json(directory / _NAME))
    except (OSError, DamagedError):
        return None
    return final if final.attempt == attempt else None
