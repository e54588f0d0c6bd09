# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Real starts of LLM Foundry from a process that has loaded it once.

    python -m tests.foundry.warm_worker   (with LLM Foundry's Python)

Loading it takes longer than training these few steps, so each rank of a start is a fork of this
process taken before anything was begun. From there on it is what torchrun would start: the worker's
own `main`. When a rank fails the others are ended, as torchrun ends them. One JSON line in for
each start, one out.
"""

import json
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.faults.warm_worker import free_port

PATIENCE = 30.0
"""Seconds that the other ranks have to end by themselves, as torchrun gives them."""


def begin(case: dict[str, Any], rank: int) -> int:
    """One rank, in this process: its exit code."""
    log = os.open(case["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(case["environment"] | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
    try:
        import_module("seatrial.worker.llm_foundry.run").main(case["words"])
    except SystemExit as end:
        return int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def fork(case: dict[str, Any], rank: int) -> int:
    """Start one rank; its process id."""
    child = os.fork()
    if not child:
        code = 1
        try:
            code = begin(case, rank)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return child


def outcome(children: set[int]) -> int:
    """Wait for all ranks; the exit code of the first that failed."""
    code, until = 0, 0.0
    while children:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if not ended:
            if until and time.monotonic() > until:
                for child in children:
                    with suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
            time.sleep(0.02)
            continue
        children.discard(ended)
        failed = os.waitstatus_to_exitcode(status)
        if failed and not code:
            code, until = failed, time.monotonic() + PATIENCE
            for child in children:
                os.kill(child, signal.SIGTERM)
    return code


def main() -> None:
    """Start each case, and tell its exit code."""
    # Not above: loaders of data load this file again, and need none of it.
    environment = import_module("seatrial.worker.environment")
    run = import_module("seatrial.worker.llm_foundry.run")
    wanted = run.ENVIRONMENT | environment.ON_CPU | environment.ONE_THREAD
    environment.set_variables(unless_set=wanted)
    import_module("seatrial.worker.llm_foundry.training")
    for line in sys.stdin:
        case = json.loads(line)
        ranks = str(case["ranks"])
        case["environment"] |= {
            "WORLD_SIZE": ranks,
            "LOCAL_WORLD_SIZE": ranks,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
        }
        Path(case["log"]).parent.mkdir(parents=True, exist_ok=True)
        code = outcome({fork(case, rank) for rank in range(case["ranks"])})
        sys.stdout.write(json.dumps({"code": code}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
