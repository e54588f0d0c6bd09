# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Start the worker as a separate process, which loads torch and the engine."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from seatrial.engine_process.environments import installed_python
from seatrial.engine_process.package_path import python_path
from seatrial.engines.engine import Arguments, Engine
from seatrial.engines.registry import ENGINES
from seatrial.errors import MissingExtraError
from seatrial.monitoring.event_log import Event, EventKind, read_events
from seatrial.monitoring.processes import MARK, end_marked, new_mark
from seatrial.rendering.environment import ON_ONE_HOST, process_environment
from seatrial.storage.state_files import open_append

VERDICT_SECONDS = 300.0
"""Timeout for the engine's validation of arguments."""
ENDING = 40.0
"""Seconds for torchrun to stop its ranks. It kills them after 30."""

Progress = Callable[[int], None]
"""Progress callback: the newest step."""


def worker_python(engine: Engine) -> str:
    """Return the Python for the workers of an engine."""
    installation = engine.installation
    chosen = os.environ.get(installation.variable)
    if chosen:
        if not os.access(chosen, os.X_OK):
            raise MissingExtraError(
                f"{installation.variable} is {chosen}, which is not executable. Set it to the "
                f"Python of an environment with {engine.title}."
            )
        return chosen
    if all(find_spec(package) for package in installation.packages):
        return sys.executable
    installed = installed_python(engine)
    if installed:
        return installed
    raise MissingExtraError(
        f"{engine.title} is not installed. Install it with: {installation.command}. Or set "
        f"{installation.variable} to the Python of an environment that has it.",
        extra=installation.extra,
    )


@dataclass(frozen=True, slots=True)
class Training:
    """One start of the engine under torchrun on this host."""

    name: str
    arguments: Arguments
    """The engine's arguments."""
    processes: int
    """Number of ranks."""
    directory: Path
    """The directory for its log and its events."""
    kill: tuple[int, int] | None = None
    """Rank and step at which a drill kills a process."""
    faults: str = ""
    """A fault to inject, for tests of the comparison itself."""
    environment: dict[str, str] = field(default_factory=dict)
    """Variables that the engine needs for the plan."""
    strong_weights: float = 0.0
    """Standard deviation of initial weights that do not depend on the layout; 0 for the engine's
    own initial weights."""
    counts_experts: bool = False
    """True if each step reports the number of tokens per expert."""
    restarts: int = 0
    """How often torchrun may restart the processes."""
    engine: str = field(kw_only=True)
    """The name of the engine."""

    @property
    def log(self) -> Path:
        """The output of the processes."""
        return self.directory / f"{self.name}.log"

    @property
    def events_file(self) -> Path:
        return self.directory / f"{self.name}.events.jsonl"


@dataclass(frozen=True, slots=True)
class TrainingOutcome:
    """The result of a training."""

    code: int
    """Exit code of torchrun; negative if it was stopped."""
    seconds: float
    """Wall-clock time."""
    events: tuple[Event, ...] = field(default=(), repr=False)
    tail: str = ""
    """The error, or the last lines of the output; empty if it succeeded."""
    timed_out: bool = False
    """True if it was stopped because of the timeout."""

    def steps(self) -> dict[int, Event]:
        """Return the steps by number. If a step ran twice, the last one counts."""
        return {event.step: event for event in self.events if event.kind is EventKind.STEP}

    def losses(self) -> dict[int, float]:
        """Return the loss of each step; NaN if a step has none."""
        return {
            step: math.nan if event.values["loss"] is None else event.values["loss"]
            for step, event in self.steps().items()
        }


def train(training: Training, timeout: float, progress: Progress | None = None) -> TrainingOutcome:
    """Run one training until it ends or exceeds the timeout."""
    training.directory.mkdir(parents=True, exist_ok=True)
    training.events_file.unlink(missing_ok=True)
    engine = ENGINES[training.engine]
    words = [
        worker_python(engine),
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={training.processes}",
        f"--max-restarts={training.restarts}",
        "--module",
        engine.modules.process,
        *engine.command_line(training.arguments),
    ]
    began = time.monotonic()
    training.log.unlink(missing_ok=True)
    with open_append(training.log) as log, _process(words, _environment(training), log) as process:
        code = _wait(process, training, began + timeout, progress)
        timed_out = process.poll() is None
    events: tuple[Event, ...] = ()
    if training.events_file.exists():
        events = tuple(read_events(training.events_file))
    tail = "" if code == 0 else _reason(training.log)
    return TrainingOutcome(code, time.monotonic() - began, events, tail, timed_out)


def _environment(training: Training) -> dict[str, str]:
    """Return the environment of the processes, including what torch needs on a CPU."""
    wanted = process_environment(str(training.events_file), on_cpu=True) | ON_ONE_HOST
    wanted |= {
        "PYTHONPATH": python_path(),
        "PYTHONWARNINGS": "ignore",
    }
    if training.kill is not None:
        wanted["SEATRIAL_DRILL_KILL"] = f"{training.kill[0]}:{training.kill[1]}"
    if training.faults:
        wanted["SEATRIAL_DRILL_FAULT"] = training.faults
    if training.strong_weights:
        wanted["SEATRIAL_DRILL_WEIGHTS"] = str(training.strong_weights)
    if training.counts_experts:
        wanted["SEATRIAL_DRILL_EXPERTS"] = "1"
    # A drill is requested only here.
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("SEATRIAL_DRILL_")}
    return inherited | training.environment | wanted


@contextmanager
def _process(words: list[str], environment: dict[str, str], log: Any) -> Iterator[Any]:
    """Start the process, and stop it and its ranks at the end.

    torchrun starts each rank in a separate session and stops them when it is asked to exit. If it
    is killed, they continue to run.
    """
    mark = new_mark()
    process = subprocess.Popen(  # noqa: S603  (our own command, no shell)
        words,
        env=environment | {MARK: mark},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=ENDING)
        except subprocess.TimeoutExpired:
            # Its ranks exit too: the CPU runtime requests a parent-death signal.
            process.kill()
            process.wait()
        end_marked(mark)


def _wait(process: Any, training: Training, deadline: float, progress: Progress | None) -> int:
    """Wait for the end and report the newest step; return -9 after the deadline."""
    while True:
        try:
            return int(process.wait(timeout=0.2))
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                return -signal.SIGKILL
        if progress is not None and training.events_file.exists():
            progress(_newest_step(training.events_file))


def _newest_step(file: Path) -> int:
    """Return the last step in an event log."""
    steps = [event.step for event in read_events(file) if event.kind is EventKind.STEP]
    return steps[-1] if steps else 0


_OF_PEERS = (
    *("Connection closed by peer", "Connection reset by peer", "Failed to recv, got 0 bytes"),
    *("gloo", "DistBackendError"),
)


def _reason(log: Path) -> str:
    """Return the error that ended a training, the signal that killed a rank, or the last lines.

    If one rank fails, its peers report a lost connection, which is not the reason.
    """
    text = log.read_text(errors="replace")
    lines = [line.rstrip() for line in text.splitlines()]
    errors = [
        line.partition("]: ")[2] or line
        for line in lines
        if ("Error: " in line or "Error(" in line)
        and not any(word in line for word in ("ChildFailedError", "what():"))
    ]
    own = [line for line in errors if not any(word in line for word in _OF_PEERS)]
    candidates = (*own, _death(text), *errors, "\n".join(lines[-5:]))
    return next(filter(None, candidates), "").strip()


def _death(text: str) -> str:
    """Return which rank was killed by which signal, according to torchrun, and C++'s message."""
    others, _, first = text.rpartition("ChildFailedError")[2].partition("Root Cause")
    block = r"rank +: (\d+) .*\n.*\n.*\n +traceback : Signal \d+ \((\w+)\)"
    died = re.findall(block, first)
    if not died:
        # torchrun reports the first failure with a resolution of one second, so it may name a peer.
        # It stops the remaining ranks itself, with SIGTERM and if necessary SIGKILL.
        own = {"SIGTERM", "SIGKILL"} if "forcefully exiting via" in text else {"SIGTERM"}
        died = [(rank, name) for rank, name in re.findall(block, others) if name not in own]
    if not died:
        return ""
    rank, name = died[0]
    words = re.findall(r"^terminate called.*(?:\n  what\(\):.*)?", text, re.MULTILINE)
    message = " ".join(words[-1].split()) if words and name == "SIGABRT" else ""
    return f"rank {rank} was killed by {name}" + (f": {message}" if message else "")


def ask_engine(
    arguments: Arguments,
    world_size: int,
    stages: list[int],
    timeout: float,
    environment: dict[str, str] | None = None,
    *,
    engine: Engine,
) -> Any:
    """Return the engine's verdict on arguments at a world size: the JSON that verdict.py prints."""
    words = ["--stages", ",".join(map(str, stages)), *engine.command_line(arguments)]
    settings = {"WORLD_SIZE": str(world_size), "RANK": "0", **(environment or {})}
    answer = _ask(engine, engine.modules.verdict, words, timeout, settings)
    return answer if isinstance(answer, dict) else {"accepted": False, "reason": answer}


def count_rank(
    words: list[str],
    rank: int,
    world_size: int,
    file: Path,
    timeout: float,
    environment: Mapping[str, str] | None = None,
    *,
    engine: Engine,
) -> str:
    """Let the engine run one rank of the full-size run without a GPU, and write what it counted.

    Returns the reason if that fails; otherwise an empty string.
    """
    settings = {"WORLD_SIZE": str(world_size), "RANK": str(rank), **(environment or {})}
    given = ["--record", str(file), *words]
    answer = _ask(engine, engine.modules.full_size, given, timeout, settings)
    return str(answer["reason"]) if isinstance(answer, dict) else answer or "no response"


def differing_tensors(
    one: Path, other: Path, timeout: float = 120.0, *, engine: Engine
) -> tuple[int, list[str]]:
    """Return the number of tensors of a checkpoint, and those that differ in another one."""
    answer = _ask(engine, engine.modules.compare, [str(one), str(other)], timeout)
    if not isinstance(answer, dict):
        return 0, [f"the comparison failed: {answer}"]
    return answer["tensors"], answer["differing"]


def build_index_cache(
    arguments: Arguments,
    seen_at: str,
    found_at: str,
    world_size: int,
    timeout: float = 3600.0,
    *,
    engine: Engine,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Let the engine build its index of samples before the training.

    `seen_at` is the location of the data in the training, `found_at` on this host. `environment`
    identifies the tokenizer, as in the training.
    """
    words = ["--seen-at", seen_at, "--found-at", found_at, *engine.command_line(arguments)]
    settings = {"WORLD_SIZE": str(world_size), "RANK": "0", **(environment or {})}
    answer = _ask(engine, engine.modules.index_cache, words, timeout, settings)
    return answer if isinstance(answer, dict) else {"error": answer}


def tokenizer_trouble(name: str, revision: str, timeout: float = 60.0, *, engine: Engine) -> str:
    """Return why the worker cannot load a tokenizer; empty if it can."""
    answer = _ask(engine, "seatrial.worker.tokenizer", [name, revision], timeout)
    return str(answer["trouble"]) if isinstance(answer, dict) else answer


def _ask(
    engine: Engine,
    module: str,
    words: list[str],
    timeout: float,
    environment: dict[str, str] | None = None,
) -> dict[str, Any] | str:
    """Return the JSON that a worker module prints last, or the reason why there is none."""
    settings = os.environ | {
        "PYTHONPATH": python_path(),
        "PYTHONWARNINGS": "ignore",
        **(environment or {}),
    }
    command = [worker_python(engine), "-m", module, *words]
    try:
        done = subprocess.run(  # noqa: S603  (our own command, no shell)
            command, env=settings, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no response within {timeout:.0f} s"
    last = done.stdout.strip().rpartition("\n")[2]
    try:
        answer: dict[str, Any] = json.loads(last)
    except json.JSONDecodeError:
        return (done.stderr.strip() or done.stdout.strip()).rpartition("\n")[2]
    return answer
