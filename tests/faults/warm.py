# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A process that has loaded an engine once, and makes starts of it as forks of itself."""

import json
import os
import subprocess
import time
from pathlib import Path

from seatrial.engine_process.package_path import python_path
from seatrial.engine_process.process import TrainingOutcome
from seatrial.monitoring.event_log import read_events
from seatrial.monitoring.processes import MARK, end_marked, marked, new_mark, state


class Warm:
    """Such a process, and all that its starts leave behind."""

    def __init__(self, python: str, module: str, **more: str) -> None:
        """Load the engine: a module that takes a case a line, and answers with an exit code."""
        self._mark = new_mark()
        wanted = {
            "PYTHONPATH": os.pathsep.join((python_path(), str(Path(__file__).parents[2]))),
            MARK: self._mark,
            "PYTHONWARNINGS": "ignore",
            "SEATRIAL_DEVICE": "cpu",
            "OMP_NUM_THREADS": "1",
            "TORCHDYNAMO_DISABLE": "1",
            "GLOO_SOCKET_IFNAME": "lo",
        }
        self._process = subprocess.Popen(
            [python, "-m", module],
            env=os.environ | wanted | more,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(
        self, log: Path, words: list[str], environment: dict[str, str], ranks: int = 1
    ) -> TrainingOutcome:
        """One start; what it prints is in the log, and its events beside it."""
        events = log.with_suffix(".events.jsonl")
        told = {"SEATRIAL_EVENTS": str(events), **environment}
        case = {"words": words, "log": str(log), "environment": told, "ranks": ranks}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        began = time.monotonic()
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        code = json.loads(self._process.stdout.readline())["code"]
        found = tuple(read_events(events)) if events.exists() else ()
        tail = "" if code == 0 else log.read_text(errors="replace")[-3000:]
        return TrainingOutcome(code, time.monotonic() - began, found, tail)

    def close(self) -> None:
        """End it, and what its starts have left: torch's manager processes outlive a rank."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(timeout=60)
        finally:
            end_marked(self._mark)

    def left_behind(self) -> list[int]:
        """Its processes that are still there."""
        return [process for process in marked(self._mark) if state(process)]
