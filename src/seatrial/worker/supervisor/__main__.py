# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial.worker.supervisor OPTIONS -- ARGUMENTS`: supervise the processes on one node.

The arguments after `--` are for torchrun: log options, the module, and the engine's arguments.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Thread

from seatrial.worker.settings import EVENTS
from seatrial.worker.supervisor.agent import Rendezvous
from seatrial.worker.supervisor.restart_budget import RestartsInARow
from seatrial.worker.supervisor.supervise import NodeTask, Supervisor

END_WITH_STDIN = "--end-with-stdin"
"""The first option of a supervisor in a container on a host."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the supervisor. Return the processes' exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    if words[:1] == [END_WITH_STDIN]:
        words = words[1:]
        Thread(target=_exit_at_end_of_stdin, daemon=True).start()
    task = parsed(words)
    supervisor = Supervisor(task, RestartsInARow(task.restarts), sys.stdout.buffer)
    signal.signal(signal.SIGTERM, supervisor.stop)
    signal.signal(signal.SIGINT, supervisor.stop)
    return supervisor.work()


def _exit_at_end_of_stdin() -> None:
    """Exit when the launcher is gone, which holds the other end of standard input.

    As this is the first process of its container, the kernel then kills all others in it.
    """
    while os.read(0, 4096):
        pass
    os._exit(1)


def parsed(arguments: Sequence[str]) -> NodeTask:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m seatrial.worker.supervisor")
    for name in ("--nodes", "--processes", "--node-rank", "--port", "--restarts"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--address", "--name", "--directory"):
        parser.add_argument(name, required=True)
    parser.add_argument("--grace-seconds", type=float, required=True)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("words", nargs="+")
    given = parser.parse_args(arguments)
    events = os.environ.get(EVENTS)
    return NodeTask(
        Rendezvous(
            *(given.nodes, given.processes, given.node_rank),
            *(given.address, given.port, given.name),
        ),
        tuple(given.words),
        given.python,
        Path(given.directory),
        Path(events) if events else None,
        given.restarts,
        given.grace_seconds,
    )


if __name__ == "__main__":
    sys.exit(main())
