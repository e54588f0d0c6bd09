# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Attempts: who writes a file, and whether that process still lives.

An attempt's name says which process makes it: host, process id and the moment that process
started. So any later process on that host can tell whether the writer is gone, and may remove what
it left. Of a process on another host nothing is known; its files stay until the data set is whole.
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
    """This host as long as it runs; a container is one of its own, as its process ids are."""
    parts = [socket.gethostname()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii"))
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    except OSError:
        # Not Linux: the name of the host has to do.
        pass
    return sha256("\0".join(parts).encode()).hexdigest()[:8]


def _began(pid: int) -> int | None:
    """When a process of this host started, in ticks; 0 where nobody tells, None if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        # The name of the program, in parentheses, may hold anything.
        state, *fields = stat.rpartition(b")")[2].split()
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
        return _signalled(pid)
    except ProcessLookupError:
        return None
    # A zombie does nothing any more; its parent has only not asked yet.
    return None if state in (b"Z", b"X") else int(fields[18])


def _signalled(pid: int) -> int | None:
    """Whether a process is there, on a host without /proc."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return 0


def new_attempt() -> str:
    """A name that no other attempt has, of any process on any host."""
    pid = os.getpid()
    return f"{_host()}-{pid}-{_began(pid) or 0}-{next(_counter)}"


def is_dead(attempt: str) -> bool:
    """Whether the process that made the attempt is known to be gone."""
    match = _NAME.fullmatch(attempt)
    if match is None or match["host"] != _host():
        return False
    began = _began(int(match["pid"]))
    return began is None or began != int(match["began"])
