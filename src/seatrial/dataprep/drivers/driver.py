# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a driver is: it places tasks on processes and tries again; it decides no byte of the output.

Where a task runs, in which order, how often and beside how many others never shows in the result,
because a task depends only on its line of the frozen list.
"""

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from seatrial.dataprep.tasks.records import PartRecord
from seatrial.dataprep.tasks.task_list import Task, TaskList, freeze
from seatrial.errors import FindingsError, SeatrialError
from seatrial.findings import Finding, Severity, Where


class DriverName(StrEnum):
    """Where tasks can run."""

    LOCAL = "local"
    """Processes on this machine."""
    RAY = "ray"
    """A Ray cluster: that of RAY_ADDRESS, or one that is started for the purpose."""


THREADS = {
    # The thread pool of Hugging Face's tokenizers does not survive a fork, either.
    "TOKENIZERS_PARALLELISM": "false",
    "RAYON_NUM_THREADS": "1",
}
"""Variables of every process that tokenizes, unless they are set: libraries would start a thread
for each core, in each of as many processes."""
TRIES = 3
"""How often a task is begun before it counts as failed."""


@dataclass(frozen=True, slots=True)
class Job:
    """What the tasks of a list share, as it is sent to workers: places and names, no data."""

    address: str
    """Root of the output."""
    head: str
    """The first line of the frozen list: the settings."""
    digest: str
    """Digest of the whole list."""
    backend: str = ""
    """The tokenizer backend that has proved exact; empty while none is chosen yet."""

    @classmethod
    def of(cls, tasks: TaskList, address: str, backend: str = "") -> "Job":
        """The job of a list."""
        head = freeze(tasks.settings, ()).decode().rstrip("\n")
        return cls(address, head, tasks.digest, backend)

    def to_json(self) -> str:
        """The job as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> "Job":
        """The job from text."""
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class PendingJob:
    """A job without its backend: choosing takes a moment, in which workers can start."""

    draft: Job
    """The job so far."""
    choose: Callable[[], str]

    def chosen(self) -> Job:
        """The job with its backend."""
        return replace(self.draft, backend=self.choose())


def limit_threads() -> None:
    """Keep libraries of this process from threads of their own.

    For the beginning of a program: a command, a worker, a pod or a process of Ray.
    """
    for name, value in THREADS.items():
        os.environ.setdefault(name, value)


def line_of(tasks: TaskList, task: Task) -> str:
    """The line of a task in the frozen list."""
    return freeze(tasks.settings, (task,)).decode().split("\n")[1]


@dataclass(frozen=True, slots=True)
class Moved:
    """A task goes on."""

    task: int
    input_bytes: int
    """Bytes of its inputs that were read so far, as stored."""


@dataclass(frozen=True, slots=True)
class Done:
    """A task has its record."""

    record: PartRecord


@dataclass(frozen=True, slots=True)
class Again:
    """A task was lost and is tried again."""

    task: int
    reason: str
    """What happened, in words."""


Event = Moved | Done | Again


class Driver(Protocol):
    """Runs tasks somewhere."""

    def run(self, job: PendingJob, tasks: TaskList, wanted: Sequence[Task]) -> Iterator[Event]:
        """Run tasks; every one ends in `Done`, or the whole in an error.

        Closing the iterator ends all that the driver has started.
        """


class TaskFailedError(SeatrialError):
    """A task cannot be done: its input is bad, or every try was lost."""


def failure(task: Task, error: dict[str, Any], tries: int) -> Exception | None:
    """The error of a task that is to end the whole; nothing when it is worth another try."""
    if error["kind"] == "mend":
        findings = [finding_from(data) for data in error.get("findings", ())]
        return FindingsError(findings) if findings else TaskFailedError(error["text"])
    if error["kind"] == "defect":
        return RuntimeError(f"task {task.number} failed\n{error['text']}")
    if tries < TRIES:
        return None
    return TaskFailedError(
        f"task {task.number} ({_inputs(task)}) was tried {tries} times and lost each time: "
        f"{error['text'].rstrip('.')}. What other tasks have prepared is kept: start again when "
        "the cause is mended."
    )


def finding_from(data: dict[str, Any]) -> Finding:
    """A finding that was passed on as plain data."""
    place, severity = Where(**data["where"]), Severity(data["severity"])
    return Finding(**data | {"where": place, "severity": severity})


def _inputs(task: Task) -> str:
    """The inputs of a task, in a few words."""
    first = task.inputs[0].address
    return first if len(task.inputs) == 1 else f"{first} and {len(task.inputs) - 1} more"


_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_QUOTA_V1 = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
_PERIOD_V1 = Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us")


def usable_cores() -> int:
    """Cores that this process may use: those it is bound to, within the limit of its container."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    limit = _limit()
    return max(1, min(cores, math.ceil(limit))) if limit else cores


def _limit() -> float | None:
    """The limit of the container, in cores; nothing when there is none."""
    try:
        if _QUOTA.exists():
            quota, period = _QUOTA.read_text(encoding="ascii").split()
        else:
            quota = _QUOTA_V1.read_text(encoding="ascii")
            period = _PERIOD_V1.read_text(encoding="ascii")
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError):
        return None
