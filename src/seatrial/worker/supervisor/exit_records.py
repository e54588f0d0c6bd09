# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The exit code of a rank, which the rank itself writes next to its heartbeat.

After a stop request, torchrun does not report whether its ranks saved or failed.
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
"""Maximum length of an exit code in bytes."""


@contextmanager
def recording_exit() -> Iterator[None]:
    """Write this process's exit code for its supervisor, if any. A killed process writes none."""
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
                # Only the supervisor on this host reads the file, within seconds.
                write_state(Path(directory, f"end-{os.getpid()}"), f"{code}\n", durable=False)


def read_ends(directory: Path) -> dict[int, int]:
    """Return the exit codes that processes on this node wrote, by process ID."""
    found = {}
    for path in directory.glob("end-*"):
        with suppress(OSError, ValueError):
            found[int(path.name.removeprefix("end-"))] = int(read_state(path, _LONGEST))
    return found


def forget_ends(directory: Path) -> None:
    """Delete the exit codes of earlier processes."""
    for path in directory.glob("end-*"):
        with suppress(OSError):
            path.unlink()


_NAME = "final.json"


@dataclass(frozen=True, slots=True)
class Final:
    """The final result of an attempt."""

    attempt: str
    """The attempt, identified by its rendezvous name."""
    code: int
    """The exit code of the attempt's processes."""


def remember(directory: Path, final: Final) -> None:
    """Store the result. If this fails, the next start determines the result again."""
    with suppress(OSError):
        write_state(directory / _NAME, json.dumps(asdict(final)))


def remembered(directory: Path, attempt: str) -> Final | None:
    """Return the final result of this attempt; None if there is none."""
    try:
        final = decode(Final, read_json(directory / _NAME))
    except (OSError, DamagedError):
        return None
    return final if final.attempt == attempt else None
