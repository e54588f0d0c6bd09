# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Train many tiny models with the engine's own loop, each rank as a fork of one loaded process.

`python -m tests.engine.forked_runs FILE` in the worker's environment. The file has a JSON list of
runs: a name, the engine's arguments, and the number of ranks. For each run, one JSON line is
printed: losses and gradient norms by step, the parameters of each rank, and how many tokens each
expert got in each step. Loading torch and the engine takes far longer than ten steps.
"""

import json
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from seatrial.worker.megatron.cpu.start import start_on_cpu

TIMEOUT = 240.0
RunRank = Callable[[list[str], Path], None]
"""Trains as one rank with the engine's arguments, and writes what it measured to a file."""


def fork_rank(run: dict[str, Any], run_rank: RunRank, rank: int, port: int, directory: Path) -> int:
    """Start a rank, and return its process id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        log = os.open(directory / f"rank-{rank}.log", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(run["ranks"])}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        run_rank(run["arguments"], directory / f"rank-{rank}.json")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def wait_for(ranks: dict[int, int]) -> bool:
    """Wait for the processes, and kill those that are left if one fails; True if all end well."""
    deadline, well = time.monotonic() + TIMEOUT, True
    while ranks:
        done, status = os.waitpid(-1, os.WNOHANG)
        if done:
            del ranks[done]
            well = well and status == 0
        elif not well or time.monotonic() > deadline:
            well = False
            time.sleep(1)
            for child in ranks:
                os.kill(child, signal.SIGKILL)
            for child in list(ranks):
                os.waitpid(child, 0)
                del ranks[child]
        else:
            time.sleep(0.02)
    return well


def total_counts(measured: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return the tokens of each expert in each step, summed over the ranks."""
    summed: dict[str, Counter[str]] = {}
    for rank in measured:
        for step, counts in rank["experts"].items():
            summed.setdefault(step, Counter()).update(counts)
    return {step: dict(counts) for step, counts in summed.items()}


def train_forked(run: dict[str, Any], run_rank: RunRank, port: int, root: Path) -> dict[str, Any]:
    """Train one run, and return what its ranks measured."""
    directory = root / run["name"].replace("/", "-")
    directory.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    ranks = {fork_rank(run, run_rank, rank, port, directory): rank for rank in range(run["ranks"])}
    well = wait_for(ranks)
    files = [directory / f"rank-{rank}.json" for rank in range(run["ranks"])]
    measured = [json.loads(file.read_text()) for file in files if file.exists()]
    tail = ""
    if not well:
        logs = [directory / f"rank-{rank}.log" for rank in range(run["ranks"])]
        tail = "\n".join(log.read_text(errors="replace")[-2500:] for log in logs)
    losses: dict[str, float] = next((one["losses"] for one in measured if one["losses"]), {})
    return {
        "name": run["name"],
        "tail": tail,
        "seconds": time.monotonic() - began,
        "losses": losses,
        "norms": measured[-1]["norms"] if measured else {},
        "parameters": [rank["parameters"] for rank in measured],
        "experts": total_counts(measured),
    }


def main(file: Path) -> None:
    """Train the runs of a file in order."""
    runs = json.loads(file.read_text())
    start_on_cpu((), is_rank=True)
    run_rank = import_module("tests.engine.recorded_rank").run_rank
    port = 20000 + os.getpid() % 20000
    for index, run in enumerate(runs):
        print(json.dumps(train_forked(run, run_rank, port + index, file.parent)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
