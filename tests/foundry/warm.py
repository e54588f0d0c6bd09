# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""LLM Foundry, loaded once for many starts."""

import json
import os
import subprocess
import time
from pathlib import Path

from seatrial.engines.engine import Arguments
from seatrial.monitoring.event_log import read_events
from seatrial.rehearsal.worker_process import Outcome, python_path, worker_python
from tests.foundry.conftest import FOUNDRY


class WarmFoundry:
    """A process that has LLM Foundry; every rank of a start is a process of its own."""

    def __init__(self) -> None:
        wanted = {
            "PYTHONPATH": os.pathsep.join((python_path(), str(Path(__file__).parents[2]))),
            "PYTHONWARNINGS": "ignore",
            "SEATRIAL_DEVICE": "cpu",
            "OMP_NUM_THREADS": "1",
            "TORCHDYNAMO_DISABLE": "1",
            "GLOO_SOCKET_IFNAME": "lo",
        }
        self._process = subprocess.Popen(
            [worker_python(FOUNDRY), "-m", "tests.foundry.warm_worker"],
            env=os.environ | wanted,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(timeout=60)

    def start(
        self,
        directory: Path,
        name: str,
        arguments: Arguments,
        ranks: int,
        kill: tuple[int, int] | None = None,
    ) -> Outcome:
        """One training; what it printed is in a file of its name."""
        log, events = directory / f"{name}.log", directory / f"{name}.events.jsonl"
        told = {"SEATRIAL_EVENTS": str(events)}
        if kill is not None:
            told["SEATRIAL_DRILL_KILL"] = f"{kill[0]}:{kill[1]}"
        words = FOUNDRY.command_line(arguments)
        case = {"words": words, "log": str(log), "environment": told, "ranks": ranks}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        began = time.monotonic()
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        code = json.loads(self._process.stdout.readline())["code"]
        found = tuple(read_events(events)) if events.exists() else ()
        tail = "" if code == 0 else log.read_text(errors="replace")[-3000:]
        return Outcome(code, time.monotonic() - began, found, tail)
