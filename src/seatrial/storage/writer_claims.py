# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Attempts: identify the writer of a file, and check if that process is alive.

An attempt's name identifies its process by host, process ID and start time. A later process on the
same host can then check if the writer is dead, and delete its leftovers. It cannot check processes
on other hosts; their files stay until the data set is complete.
"""

import os
import re
import socket
from functools import cache
from hashlib import sha256
from itertools import count
from pathlib import Path

_NAME = re.compile(r"(?P<host>[0-9a-f]{8})-(?P<pid>\d+)-(?P<began>\d+)-\d+")
_counter = count()


@cache
def _host() -> str:
    """Identify this host until it reboots. A container counts as a host: it has its own PIDs."""
    parts = [socket.gethostname()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    except OSError:
        # This is not Linux, so use only the host name.
        pass
    return sha256("\0".join(parts).encode()).hexdigest()[:8]


def _began(pid: int) -> int | None:
    """Return the start time of a process in ticks; 0 if unknown, None if it is dead."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        # The program name, in parentheses, may contain any character.
        state, *fields = stat.rpartition(b")")[2].split()
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
        return _signalled(pid)
    except ProcessLookupError:
        return None
    # A zombie is dead; its parent has not reaped it yet.
    return None if state in (b"Z", b"X") else int(fields[18])


def _signalled(pid: int) -> int | None:
    """Check for a process on a host without /proc. Return 0 if it exists, None if it does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return 0


def new_attempt() -> str:
    """Return an attempt name that is unique across processes and hosts."""
    pid = os.getpid()
    return f"{_host()}-{pid}-{_began(pid) or 0}-{next(_counter)}"


def is_dead(attempt: str) -> bool:
    """True if the process that made the attempt is known to be dead."""
    match = _NAME.fullmatch(attempt)
    if match is None or match["host"] != _host():
        return False
    began = _began(int(match["pid"]))
    return began is None or began != int(match["began"])
