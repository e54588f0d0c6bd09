# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Starting the worker as a process of its own: the only way from here to torch and the engine."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from seatrial.engines.megatron.flags import Arguments, command_line
from seatrial.errors import MissingExtraError
from seatrial.monitoring.event_log import Event, EventKind, read_events

WORKER_PYTHON = "SEATRIAL_WORKER_PYTHON"
"""The Python that has the worker extra, when it is not the one that runs the command."""

PACKAGE = Path(__file__).parents[1]
"""This Seatrial, so that the worker's environment runs the same one."""

Progress = Callable[[int], None]
"""Told the newest step while a worker trains."""


@cache
def _linked_package() -> TemporaryDirectory[str]:
    """A directory with nothing but a link to this Seatrial, removed at the end of the process.

    The directory that it is installed in may hold other packages of another Python.
    """
    directory = TemporaryDirectory(prefix="seatrial-")
    (Path(directory.name) / PACKAGE.name).symlink_to(PACKAGE)
    return directory


def python_path() -> str:
    """The search path of a worker: this Seatrial, then what the user has set."""
    return os.pathsep.join(filter(None, (_linked_package().name, os.environ.get("PYTHONPATH"))))


def worker_python() -> str:
    """The Python to start workers with."""
    chosen = os.environ.get(WORKER_PYTHON)
    if chosen:
        if not os.access(chosen, os.X_OK):
            raise MissingExtraError(
                f"{WORKER_PYTHON} is {chosen}, which is no program. Set it to the Python of an "
                "environment with seatrial[worker]."
            )
        return chosen
    if find_spec("torch") and find_spec("megatron"):
        return sys.executable
    raise MissingExtraError(
        "The training engine is not installed. Install seatrial[worker] here, or in an "
        f"environment of its own and set {WORKER_PYTHON} to that environment's Python."
    )


@dataclass(frozen=True, slots=True)
class Training:
    """One start of the engine under torchrun on this host."""

    name: str
    """Names its files."""
    arguments: Arguments
    """What the engine is told."""
    processes: int
    """Ranks."""
    directory: Path
    """Where its log and its events go."""
    kill: tuple[int, int] | None = None
    """Rank and step of a drill's kill."""
    faults: str = ""
    """A deliberate fault for the tests of the bars themselves."""

    @property
    def log(self) -> Path:
        """What the processes print."""
        return self.directory / f"{self.name}.log"

    @property
    def events_file(self) -> Path:
        """The event log."""
        return self.directory / f"{self.name}.events.jsonl"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a training ended."""

    code: int
    """Exit code of torchrun; negative when it had to be stopped."""
    seconds: float
    """Wall time from start to end."""
    events: tuple[Event, ...] = field(default=(), repr=False)
    """What the run wrote."""
    tail: str = ""
    """The last lines that the processes printed, when it failed."""

    def steps(self) -> dict[int, Event]:
        """The steps by number; of a step that was done twice, the last."""
        return {event.step: event for event in self.events if event.kind is EventKind.STEP}

    def losses(self) -> dict[int, float]:
        """The loss of each step; not a number where the step has none."""
        return {
            step: math.nan if event.values["loss"] is None else event.values["loss"]
            for step, event in self.steps().items()
        }


def train(training: Training, timeout: float, progress: Progress | None = None) -> Outcome:
    """Run one training to its end, or stop it when it takes too long."""
    training.directory.mkdir(parents=True, exist_ok=True)
    training.events_file.unlink(missing_ok=True)
    words = [
        worker_python(),
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={training.processes}",
        "--module",
        "seatrial.worker",
        *command_line(training.arguments),
    ]
    began = time.monotonic()
    with training.log.open("w") as log, _process(words, _environment(training), log) as process:
        code = _wait(process, training, began + timeout, progress)
    events: tuple[Event, ...] = ()
    if training.events_file.exists():
        events = tuple(read_events(training.events_file))
    tail = "" if code == 0 else _reason(training.log)
    return Outcome(code, time.monotonic() - began, events, tail)


def _environment(training: Training) -> dict[str, str]:
    """The environment of the processes: ours, and what the CPU runtime needs before torch loads."""
    wanted = {
        "SEATRIAL_DEVICE": "cpu",
        "SEATRIAL_EVENTS": str(training.events_file),
        "PYTHONPATH": python_path(),
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    if training.kill is not None:
        wanted["SEATRIAL_DRILL_KILL"] = f"{training.kill[0]}:{training.kill[1]}"
    if training.faults:
        wanted["SEATRIAL_DRILL_FAULT"] = training.faults
    return os.environ | wanted


@contextmanager
def _process(words: list[str], environment: dict[str, str], log: Any) -> Iterator[Any]:
    """The process, in a group of its own, so that nothing of it is left behind."""
    process = subprocess.Popen(  # noqa: S603  (our own words, no shell)
        words,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        # The leader may be gone while a rank that lost its peers still waits for them.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(process: Any, training: Training, deadline: float, progress: Progress | None) -> int:
    """Wait for the end, telling the newest step on the way; -9 when time is up."""
    while True:
        try:
            return int(process.wait(timeout=0.2))
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                return -signal.SIGKILL
        if progress is not None and training.events_file.exists():
            progress(_newest_step(training.events_file))


def _newest_step(file: Path) -> int:
    """The last step in an event log."""
    steps = [event.step for event in read_events(file) if event.kind is EventKind.STEP]
    return steps[-1] if steps else 0


def _reason(log: Path) -> str:
    """The last error that a process printed, or its last lines."""
    lines = [line.rstrip() for line in log.read_text(errors="replace").splitlines()]
    errors = [
        line.partition("]: ")[2] or line
        for line in lines
        if ("Error: " in line or "Error(" in line) and "ChildFailedError" not in line
    ]
    return errors[-1].strip() if errors else "\n".join(lines[-5:])


def ask_engine(
    arguments: Arguments,
    world_size: int,
    stages: list[int],
    timeout: float,
    environment: dict[str, str] | None = None,
) -> Any:
    """The engine's verdict on arguments at a world size: the JSON that worker/verdict.py prints."""
    words = [worker_python(), "-m", "seatrial.worker.verdict", "--stages"]
    words += [",".join(map(str, stages)), *command_line(arguments)]
    settings = os.environ | {
        "WORLD_SIZE": str(world_size),
        "RANK": "0",
        "PYTHONPATH": python_path(),
        "PYTHONWARNINGS": "ignore",
        **(environment or {}),
    }
    try:
        done = subprocess.run(  # noqa: S603  (our own words, no shell)
            words, env=settings, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return {"accepted": False, "reason": f"no answer within {timeout:.0f} s"}
    last = done.stdout.strip().rpartition("\n")[2]
    try:
        return json.loads(last)
    except json.JSONDecodeError:
        reason = (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
        return {"accepted": False, "reason": reason}
