# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Real starts of the engine from a process that has loaded it once.

    python -m tests.faults.warm_worker   (with the worker's Python)

Loading torch and the engine takes longer than training these few steps, so every start is a fork
of this process taken before anything was begun. From there on it is what torchrun would start: the
worker's own `train`, which ends with its exit code. One JSON line in for each start, one out.
"""

import json
import os
import signal
import socket
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

MOST_SECONDS = 300
"""How long a start may take, on a busy host."""


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port: int = listening.getsockname()[1]
        return port


def begin(case: dict[str, Any]) -> int:
    """One start, in this process: its exit code."""
    log = os.open(case["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(case["environment"])
    # One that hangs is ended by SIGALRM, which no other end looks like.
    signal.alarm(MOST_SECONDS)
    try:
        chosen = import_module("seatrial.worker.settings").settings()
        import_module("seatrial.worker.megatron.training").train(chosen, case["words"])
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def main() -> None:
    """Start each case in a fork, and tell its exit code."""
    # Not above: the engine starts processes that load this file again, and need none of it.
    import_module("seatrial.worker.megatron.cpu.start").start_on_cpu((), is_rank=True)
    import_module("seatrial.worker.megatron.training")
    for line in sys.stdin:
        case = json.loads(line)
        alone = {
            "RANK": "0",
            "LOCAL_RANK": "0",
            "WORLD_SIZE": "1",
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
        }
        case["environment"] = alone | case["environment"]
        Path(case["log"]).parent.mkdir(parents=True, exist_ok=True)
        child = os.fork()
        if not child:
            os.setpgid(0, 0)
            code = 1
            try:
                code = begin(case)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        # What the engine started for its saves, which a pod would end.
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        sys.stdout.write(json.dumps({"code": os.waitstatus_to_exitcode(status)}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
