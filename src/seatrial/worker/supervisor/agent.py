# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""torchrun as a child: how it is told to meet the others, and what its lines tell.

Restarting the whole group over all nodes is torchrun's own work, through its dynamic rendezvous
(`c10d`): an agent whose process dies joins again, and the others, which see it waiting, start
theirs again too. The supervisor sees to what the agent cannot: that it lives, that its processes
get on, and that none is left.
"""

import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Thread
from typing import BinaryIO

from seatrial.monitoring.processes import end

JOIN_SECONDS = 900
"""How long a node waits for the others: a container that keeps failing is held back up to 300 s."""
KEEP_ALIVE_SECONDS = 2
KEEP_ALIVE_MISSES = 3
"""After how long an agent that was killed counts as gone; with torch's own 5 s × 3 its successor
waited 15 s more."""
_MOST_RESTARTS = 1_000_000
"""The supervisor counts restarts, not the agent."""
MASTER = "SEATRIAL_MASTER_ADDR"
"""Where the processes find rank 0; see `Rendezvous.words`."""

_FAILED = re.compile(rb"failed \(exitcode: (-?\d+)\) local_rank: (\d+) \(pid: (\d+)\)")
_CLOSING = re.compile(rb"Sending process (\d+) closing signal SIG")


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """How the agents of a run's nodes find each other."""

    nodes: int
    processes: int
    node_rank: int
    address: str
    """The host on which node 0 listens."""
    port: int
    name: str
    """What tells this attempt from others that might listen there."""

    def words(self, restarts: int) -> list[str]:
        """The options of torchrun.

        Its rendezvous numbers the nodes by the order of their addresses. Numbers that differ from
        those of the pods would put ranks of one pipeline or rail far from each other, so every node
        gives a name as its address that sorts as its number does; nobody looks that name up, for
        the processes are told the real address of rank 0 (`MASTER`).
        """
        settings = {
            "is_host": str(self.node_rank == 0).lower(),
            "join_timeout": JOIN_SECONDS,
            "keep_alive_interval": KEEP_ALIVE_SECONDS,
            "keep_alive_max_attempt": KEEP_ALIVE_MISSES,
        }
        return [
            f"--nnodes={self.nodes}",
            f"--nproc-per-node={self.processes}",
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint={self.address}:{self.port}",
            f"--rdzv-id={self.name}",
            "--rdzv-conf=" + ",".join(f"{name}={value}" for name, value in settings.items()),
            f"--local-addr=node-{self.node_rank:05}",
            f"--max-restarts={_MOST_RESTARTS if restarts else 0}",
        ]


@dataclass(frozen=True, slots=True)
class Failure:
    """A process that ended, as the agent told."""

    code: int
    """Its exit code; the negative number of a signal that ended it."""
    local_rank: int
    """Its number on the node."""
    process: int


@dataclass(frozen=True, slots=True)
class Closing:
    """A process that the agent has asked to end."""

    process: int


Sign = Failure | Closing
"""What an agent's line tells."""


def sign_of(line: bytes) -> Sign | None:
    """What a line of the agent tells, if anything."""
    if found := _FAILED.search(line):
        code, local_rank, process = map(int, found.groups())
        return Failure(code, local_rank, process)
    if found := _CLOSING.search(line):
        return Closing(int(found[1]))
    return None


class Agent:
    """A torchrun that runs, with its output passed on line by line."""

    def __init__(self, words: list[str], environment: Mapping[str, str], out: BinaryIO) -> None:
        """Start it, so that it ends with this process."""
        tether = [sys.executable, "-m", "seatrial.worker.supervisor.parent_death", str(os.getpid())]
        self._process = subprocess.Popen(  # noqa: S603  (our own words, no shell)
            [*tether, *words],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # A signal to the group of whoever started us is ours to pass on.
            start_new_session=True,
        )
        self._signs: deque[Sign] = deque()
        self._pump = Thread(target=self._pass_on, args=(out,), daemon=True)
        self._pump.start()

    @property
    def process(self) -> int:
        return self._process.pid

    def code(self) -> int | None:
        """Its exit code; none while it runs."""
        return self._process.poll()

    def signs(self) -> list[Sign]:
        """What its lines have told since the last time."""
        found = []
        while self._signs:
            found.append(self._signs.popleft())
        return found

    def ask(self) -> None:
        """Ask it to end; it passes that on to its processes, and waits for them."""
        self._process.terminate()

    def kill(self) -> None:
        """End it; its processes end with it."""
        end(self._process.pid)
        self._process.wait()

    def drain(self, seconds: float = 5.0) -> None:
        """Wait until its last lines are passed on; a process that is left may hold the pipe."""
        self._pump.join(seconds)

    def _pass_on(self, out: BinaryIO) -> None:
        stream = self._process.stdout
        if stream is None:
            return
        write: Callable[[bytes], object] | None = out.write
        for line in stream:
            if sign := sign_of(line):
                self._signs.append(sign)
            if write is None:
                continue
            try:
                write(line)
                out.flush()
            except (OSError, ValueError):
                # Nobody reads any more; the processes must not block for that.
                write = None
