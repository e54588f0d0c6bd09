# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A program that runs in the background until it is stopped, by whoever comes later."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_children: dict[int, subprocess.Popen[bytes]] = {}
"""What this process started, to be buried when it ends; others bury theirs."""


class NotReadyError(RuntimeError):
    """Something did not happen in time."""


@dataclass(slots=True)
class Daemon:
    """One program of a cluster.

    Its id is kept in a file, so that a cluster that was started by hand, or whose tests died,
    can be stopped by another process.
    """

    name: str
    """What its log and its id are called."""
    argv: list[str]
    """How it is started, in the cluster's home."""
    home: Path
    """The cluster's home."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables besides those of this process."""

    @property
    def log(self) -> Path:
        """What it printed."""
        return self.home / "log" / self.name

    def start(self) -> None:
        """Start it; what it prints is added to its log."""
        self.log.parent.mkdir(exist_ok=True)
        self._id.parent.mkdir(exist_ok=True)
        with self.log.open("ab") as log:
            child = subprocess.Popen(
                self.argv,
                cwd=self.home,
                env={**plain_environment(), **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        _children[child.pid] = child
        self._id.write_text(f"{child.pid} {_born(child.pid)}")

    def pid(self) -> int:
        """Its id; 0 when it was not started."""
        return self._recorded()[0]

    def running(self) -> bool:
        """Whether it runs."""
        pid, born = self._recorded()
        return bool(pid) and _born(pid) == born

    def stop(self, grace: float = 10) -> None:
        """End it: politely, and after the grace by force. Without grace by force at once."""
        if grace and self.running():
            self._signal(signal.SIGTERM)
            deadline = time.monotonic() + grace
            while self.running() and time.monotonic() < deadline:
                time.sleep(0.02)
        if self.running():
            self._signal(signal.SIGKILL)
        # The kernel ends a killed process once what it waits for, such as a disk, has answered.
        wait_until(lambda: not self.running(), f"{self.name} has ended", 60)
        if child := _children.pop(self.pid(), None):
            child.wait()
        self._id.unlink(missing_ok=True)

    def last_lines(self, count: int = 15) -> str:
        """The end of its log, for a message."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-count:])

    def wait_until(self, ready: Callable[[], bool], what: str, seconds: float = 300) -> None:
        """Wait for something that it is to bring about; its log says why when it does not."""

        def ready_or_dead() -> bool:
            return not self.running() or ready()

        try:
            wait_until(ready_or_dead, what, seconds)
        except NotReadyError as error:
            raise NotReadyError(f"{error}. {self.log}:\n{self.last_lines()}") from None
        if not self.running():
            raise NotReadyError(f"{self.name} ended. {self.log}:\n{self.last_lines()}")

    @property
    def _id(self) -> Path:
        return self.home / "run" / self.name

    def _recorded(self) -> tuple[int, int]:
        try:
            pid, born = self._id.read_text().split()
        except (FileNotFoundError, ValueError):
            return 0, 0
        return int(pid), int(born)

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.kill(self._recorded()[0], number)
        except ProcessLookupError:
            return


def wait_until(ready: Callable[[], bool], what: str, seconds: float = 300) -> None:
    """Ask again and again; an error after that time."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise NotReadyError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.05)


def _born(pid: int) -> int:
    """When a process started, in the kernel's ticks: tells it from a later one of that number.

    0 for one that is not there, or has ended and waits for its parent.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    # The name in parentheses may hold anything; what follows it is in columns.
    fields = stat.rpartition(")")[2].split()
    return 0 if fields[0] == "Z" else int(fields[19])


def plain_environment() -> dict[str, str]:
    """This process' environment without proxies: a cluster talks only to itself."""
    return {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
