# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The driver interface: a driver distributes tasks to processes and retries them.

The output does not depend on where, when, how often or in which order a task runs, because a task
depends only on its line of the frozen list.
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
    """Where tasks run."""

    LOCAL = "local"
    """Processes on this machine."""
    RAY = "ray"
    """A Ray cluster: the one in RAY_ADDRESS, or a temporary one."""
    PODS = "pods"
    """The pods of a Kubernetes Job; the command waits for their records."""


THREADS = {
    # The thread pool of Hugging Face tokenizers also breaks after a fork.
    "TOKENIZERS_PARALLELISM": "false",
    "RAYON_NUM_THREADS": "1",
}
"""Environment variables for every tokenizing process, unless already set. Otherwise libraries start
one thread per core in each process."""
TRIES = 3
"""Attempts before a task counts as failed."""


@dataclass(frozen=True, slots=True)
class Job:
    """The settings that all tasks of a list share, as sent to workers; it contains no data."""

    address: str
    """Root of the output."""
    head: str
    """The first line of the frozen list, with the settings."""
    digest: str
    """Digest of the whole list."""
    backend: str = ""
    """The verified tokenizer backend; empty if not chosen yet."""

    @classmethod
    def of(cls, tasks: TaskList, address: str, backend: str = "") -> "Job":
        """Return the job of a task list."""
        head = freeze(tasks.settings, ()).decode().rstrip("\n")
        return cls(address, head, tasks.digest, backend)

    def to_json(self) -> str:
        """Serialize the job."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> "Job":
        """Parse a serialized job."""
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class PendingJob:
    """A job whose backend is not chosen yet, so that workers can start in the meantime."""

    draft: Job
    """The job without a backend."""
    choose: Callable[[], str]

    def chosen(self) -> Job:
        """Choose the backend and return the complete job."""
        return replace(self.draft, backend=self.choose())


def limit_threads() -> None:
    """Keep libraries in this process from starting their own threads.

    Call it when a program starts: a command, a worker, a pod or a Ray process.
    """
    for name, value in THREADS.items():
        os.environ.setdefault(name, value)


def line_of(tasks: TaskList, task: Task) -> str:
    """Return the line of a task in the frozen list."""
    return freeze(tasks.settings, (task,)).decode().split("\n")[1]


@dataclass(frozen=True, slots=True)
class Moved:
    """A task has made progress."""

    task: int
    input_bytes: int
    """Stored bytes of its inputs that have been read."""


@dataclass(frozen=True, slots=True)
class Done:
    """A task is done and has its record."""

    record: PartRecord


@dataclass(frozen=True, slots=True)
class Again:
    """A task failed and is retried."""

    task: int
    reason: str
    """Reason as text."""


Event = Moved | Done | Again


class Driver(Protocol):
    """Runs tasks somewhere."""

    def run(self, job: PendingJob, tasks: TaskList, wanted: Sequence[Task]) -> Iterator[Event]:
        """Run tasks; each one ends in `Done`, or the whole run in an error.

        Closing the iterator stops everything that the driver started.
        """


class TaskFailedError(SeatrialError):
    """A task cannot be done: its input is bad, or all attempts failed."""


class TransientTaskError(TaskFailedError):
    """All attempts failed because of the machine or the store: a later attempt may succeed."""


def failure(task: Task, error: dict[str, Any], tries: int) -> Exception | None:
    """Return the exception that ends the run; None if the task should be retried."""
    if error["kind"] == "fixable":
        findings = [finding_from(data) for data in error.get("findings", ())]
        return FindingsError(findings) if findings else TaskFailedError(error["text"])
    if error["kind"] == "defect":
        return RuntimeError(f"task {task.number} failed\n{error['text']}")
    if tries < TRIES:
        return None
    return TransientTaskError(
        f"task {task.number} ({_inputs(task)}) failed {tries} times. The last error: "
        f"{error['text'].rstrip('.')}. Finished tasks are kept: fix the cause and rerun the "
        "command."
    )


def finding_from(data: dict[str, Any]) -> Finding:
    """Restore a finding from plain data."""
    place, severity = Where(**data["where"]), Severity(data["severity"])
    return Finding(**data | {"where": place, "severity": severity})


def _inputs(task: Task) -> str:
    """Describe the inputs of a task briefly."""
    first = task.inputs[0].address
    return first if len(task.inputs) == 1 else f"{first} and {len(task.inputs) - 1} more"


_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_QUOTA_V1 = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")
_PERIOD_V1 = Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us")


def usable_cores() -> int:
    """Return the cores that this process can use: its CPU affinity, capped by its cgroup."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    limit = _limit()
    return max(1, min(cores, math.ceil(limit))) if limit else cores


def _limit() -> float | None:
    """Return the CPU limit of the container in cores, or None if there is none."""
    try:
        if _QUOTA.exists():
            quota, period = _QUOTA.read_text(encoding="ascii").split()
        else:
            quota = _QUOTA_V1.read_text(encoding="ascii")
            period = _PERIOD_V1.read_text(encoding="ascii")
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError):
        return None
