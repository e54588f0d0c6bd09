# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Run torchrun as a child process: its rendezvous options, and the meaning of its messages.

torchrun itself restarts the whole group on all nodes, through its dynamic rendezvous (`c10d`): an
agent whose process dies joins again, and the other agents, which see it waiting, also restart their
processes. The supervisor does what the agent cannot do: it keeps the agent running, detects hung
processes, and kills orphans.
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
"""How long a node waits for the others; the back-off for a failing container is up to 300 s."""
KEEP_ALIVE_SECONDS = 2
KEEP_ALIVE_MISSES = 3
"""Missed keep-alive messages until a killed agent counts as gone. With torch's default, 5 s × 3,
its successor waited 15 s longer."""
_MOST_RESTARTS = 1_000_000
"""Effectively unlimited, because the supervisor counts restarts, not the agent."""
MASTER = "SEATRIAL_MASTER_ADDR"
"""The address of rank 0 that the processes use; see `Rendezvous.words`."""

_FAILED = re.compile(rb"failed \(exitcode: (-?\d+)\) local_rank: (\d+) \(pid: (\d+)\)")
_CLOSING = re.compile(rb"Sending process (\d+) closing signal SIG")


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """How the agents on a run's nodes find each other."""

    nodes: int
    processes: int
    node_rank: int
    address: str
    """The host on which node 0 listens."""
    port: int
    name: str
    """Distinguishes this attempt from others that might listen at the same address."""

    def words(self, restarts: int) -> list[str]:
        """Return the torchrun options.

        torchrun's rendezvous numbers the nodes in the order of their addresses. If these numbers
        differed from the pods' numbers, ranks in one pipeline or rail would be far from each other.
        So every node uses a name as its address that sorts like its number. The name is never
        resolved: the processes get the real address of rank 0 in `MASTER`.
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
    """A process that failed, as reported by the agent."""

    code: int
    """Exit code; negative signal number if a signal killed the process."""
    local_rank: int
    """Rank on the node."""
    process: int


@dataclass(frozen=True, slots=True)
class Closing:
    """A process to which the agent sent a closing signal."""

    process: int


Sign = Failure | Closing
"""A message from the agent."""


def sign_of(line: bytes) -> Sign | None:
    """Parse a line of the agent's output; None if it does not contain such a message."""
    if found := _FAILED.search(line):
        code, local_rank, process = map(int, found.groups())
        return Failure(code, local_rank, process)
    if found := _CLOSING.search(line):
        return Closing(int(found[1]))
    return None


class Agent:
    """A running torchrun process, whose output is forwarded line by line."""

    def __init__(self, argv: list[str], environment: Mapping[str, str], out: BinaryIO) -> None:
        """Start torchrun, which exits when this process dies."""
        launcher = [
            sys.executable,
            "-m",
            "seatrial.worker.supervisor.parent_death",
            str(os.getpid()),
        ]
        self._process = subprocess.Popen(  # noqa: S603  (our own argv, no shell)
            [*launcher, *argv],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Only this process may receive signals to the process group. It forwards them.
            start_new_session=True,
        )
        self._signs: deque[Sign] = deque()
        self._pump = Thread(target=self._pass_on, args=(out,), daemon=True)
        self._pump.start()

    @property
    def process(self) -> int:
        return self._process.pid

    def code(self) -> int | None:
        """Return the agent's exit code; None while it is running."""
        return self._process.poll()

    def signs(self) -> list[Sign]:
        """Return the agent's messages since the last call."""
        found = []
        while self._signs:
            found.append(self._signs.popleft())
        return found

    def ask(self) -> None:
        """Send SIGTERM; torchrun forwards it to its processes and waits for them."""
        self._process.terminate()

    def kill(self) -> None:
        """Kill the agent; its processes exit with it."""
        end(self._process.pid)
        self._process.wait()

    def drain(self, seconds: float = 5.0) -> None:
        """Wait until the agent's last lines are forwarded; an orphan may keep the pipe open."""
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
                # The reader has exited; the processes must not block on a full pipe.
                write = None
