# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Counts of full-size ranks from a process that has loaded the engine once, with planted hangs.

    python -m tests.engine.full_size_worker   (with the worker's Python)

One JSON line in for each rank, one out with the reason if it fails. Each rank is a fork.
"""

import json
import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

PACKAGE = "seatrial.worker.megatron.full_size"


def count(case: dict[str, Any], counter: Any) -> None:
    """Count one rank in this process, and write its record."""
    os.environ.update(WORLD_SIZE=str(case["world_size"]), RANK=str(case["rank"]))
    if case["fault"]:
        import_module("tests.engine.hang_faults").FAULTS[case["fault"]]()
    rank, kernels = import_module(f"{PACKAGE}.rank"), import_module(f"{PACKAGE}.kernels")
    parser = import_module(f"{PACKAGE}.__main__").own_parser()
    own, words = parser.parse_known_args(["--record", case["record"], *case["words"]])
    kernels.Choices.attention = kernels.Attention(own.attention)
    record = rank.count_rank(words, counter, rank.CountOptions())
    own.record.write_text(json.dumps(record.to_dict()))


def fork(case: dict[str, Any], counter: Any) -> int:
    """Count one rank in a child process, and return its exit code."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code = 1
    log = os.open(case["record"] + ".log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        count(case, counter)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Load the engine, then count each rank that is asked for."""
    own = import_module(f"{PACKAGE}.__main__")
    import_module("seatrial.worker.environment").set_variables(unless_set=own.VARIABLES)
    attention = import_module(f"{PACKAGE}.kernels").Attention("flash")
    counter = import_module(f"{PACKAGE}.start").prepare(attention, 512)
    import_module(f"{PACKAGE}.rank")
    for line in sys.stdin:
        case = json.loads(line)
        code = fork(case, counter)
        tail = "" if code == 0 else Path(case["record"] + ".log").read_text()[-3000:]
        sys.stdout.write(json.dumps({"reason": tail}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
