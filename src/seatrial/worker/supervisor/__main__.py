# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial.worker.supervisor OPTIONS -- ARGUMENTS`: supervise the processes on one node.

The arguments after `--` are for torchrun: log options, the module, and the engine's arguments.
"""

import argparse
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread

from seatrial.errors import FindingsError, SeatrialError
from seatrial.worker.settings import DATASET, EVENTS, INITIAL_WEIGHTS, TOKENIZER_SOURCE
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
    try:
        task = replace(task, environment=tokenizer_variables(os.environ, task.directory))
    except (SeatrialError, OSError) as error:
        found = error.findings if isinstance(error, FindingsError) else ()
        reason = "\n".join(f"{one.code} {one.one_line()}" for one in found) or str(error)
        sys.stderr.write(f"seatrial: the tokenizer cannot be used.\n{reason}\n")
        return 1
    supervisor = Supervisor(task, RestartsInARow(task.restarts), sys.stdout.buffer)
    signal.signal(signal.SIGTERM, supervisor.stop)
    signal.signal(signal.SIGINT, supervisor.stop)
    return supervisor.work()


def tokenizer_variables(environment: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Verify the data set's tokenizer, once per start of a node. Return the ranks' variables.

    Without a copy in the data set, this downloads a tokenizer from an object store, and the ranks
    load any other tokenizer from its address.
    """
    dataset, source = environment.get(DATASET), environment.get(TOKENIZER_SOURCE)
    if not dataset and not source:
        return {}
    # Import late: this imports the spec, which the supervisor otherwise does not need.
    from seatrial.dataprep.output.tokenizer_copy import (  # noqa: PLC0415
        staged_tokenizer,
        verified_copy,
    )

    copy = verified_copy(dataset, scratch) if dataset else None
    if copy is None and source:
        copy = staged_tokenizer(source, scratch)
    if copy is None:
        return {}
    needs_hub = environment.get(INITIAL_WEIGHTS, "").startswith("hf://")
    found = copy.variables(offline=not needs_hub)
    # The spec may set these variables too.
    return {name: value for name, value in found.items() if name not in environment}


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
