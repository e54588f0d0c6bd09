# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Starts of several ranks of Megatron from a process that has loaded it once.

    python -m tests.engine.warm_worker   (with the worker's Python)

Each rank is a fork of this process, and from there on what torchrun would start. One JSON line in
for each start, one out.
"""

import json
import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.faults.warm_worker import free_port
from tests.foundry.warm_worker import outcome


def begin(case: dict[str, Any], rank: int) -> int:
    """One rank, in this process: its exit code."""
    log = os.open(case["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(case["environment"] | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
    try:
        chosen = import_module("seatrial.worker.settings").settings()
        if chosen.fault:
            bugs = import_module("seatrial.worker.megatron.cpu.deliberate_bugs")
            bugs.install(bugs.Bug(chosen.fault))
        import_module("seatrial.worker.megatron.training").train(chosen, case["words"])
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


def main() -> None:
    """Start each case, and tell its exit code."""
    # Not above: the engine starts processes that load this file again, and need none of it.
    import_module("seatrial.worker.megatron.cpu.start").start_on_cpu((), is_rank=True)
    import_module("seatrial.worker.megatron.training")
    import_module("seatrial.worker.megatron.cpu.layers")
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
