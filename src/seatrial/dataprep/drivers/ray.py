# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The driver for a Ray cluster: plain remote tasks that do not use the object store.

A task receives a line of the list and returns a record of a few hundred bytes, which Ray sends
inline. Texts and tokens never pass through Ray: workers read and write the stores directly. Losing
the head node therefore costs time but no data, and the overhead of Ray Data (2 to 5 times the
wall-clock time of the pool, measured) is avoided.
"""

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from seatrial.dataprep.drivers.driver import (
    TRIES,
    Again,
    Done,
    Event,
    Job,
    PendingJob,
    failure,
    limit_threads,
    line_of,
)
from seatrial.dataprep.drivers.local import LARGEST_MEMORY
from seatrial.dataprep.drivers.work import Bench
from seatrial.dataprep.kernel.memory import memory_in_use
from seatrial.dataprep.tasks.records import PartRecord
from seatrial.dataprep.tasks.task_list import Task, TaskList
from seatrial.errors import MissingExtraError, SeatrialError
from seatrial.process_environment import default_variables

ADDRESS = "RAY_ADDRESS"
"""Ray's environment variable for the cluster address."""
_OWN = "local"
"""Ray's address for a new cluster in this process. Without an address Ray would join any cluster
that it finds on this machine, even another user's."""
_ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
"""Environment variables for Ray and the processes that it starts."""
_AHEAD = 2
"""Tasks to submit per CPU: one that runs, and one that is queued."""


class RayError(SeatrialError):
    """The Ray cluster cannot be used."""


@dataclass
class RayDriver:
    """Runs tasks on a Ray cluster."""

    workers: int
    """CPUs of a cluster that is started here; a running one has its own number of CPUs."""
    address: str | None = None
    """Address of a running cluster; default RAY_ADDRESS. If neither is set, one is started."""
    start_seconds: float = field(default=0.0, init=False)
    """Seconds to connect to Ray or to start it."""

    def run(self, job: PendingJob, tasks: TaskList, wanted: Sequence[Task]) -> Iterator[Event]:
        """Run tasks; see Driver."""
        if not wanted:
            return
        address = self.address or os.environ.get(ADDRESS) or _OWN
        # A cluster that is started here serves only this process. Ray would listen on all
        # addresses. With the macOS setting, which disables clusters, it uses only the loopback.
        with default_variables(_ALONE if address == _OWN else {}):
            ray = _ray()
            own = not ray.is_initialized()
            if own:
                self._connect(ray, address)
        try:
            run = _RayRun(ray, job.chosen().to_json(), tasks, deque(wanted))
            with closing(run):
                yield from run.events(self._limit(ray))
        finally:
            if own:
                ray.shutdown()

    def _connect(self, ray: Any, address: str) -> None:
        """Connect to the running cluster, or start one on this machine."""
        began = time.monotonic()
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if address == _OWN:
            options |= {"num_cpus": self.workers, "include_dashboard": False}
        try:
            ray.init(address=address, **options)
        except (OSError, RuntimeError, ValueError) as error:
            raise RayError(_refusal(address, error, ray.__version__)) from error
        self.start_seconds = time.monotonic() - began

    def _limit(self, ray: Any) -> int:
        """Return the number of tasks to keep submitted."""
        cpus = int(ray.cluster_resources().get("CPU", self.workers))
        return _AHEAD * max(1, cpus)


def _refusal(address: str, error: Exception, version: str) -> str:
    """Explain why there is no cluster, and how to fix it."""
    reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
    if address == _OWN:
        return (
            f"Ray cannot start on this machine: {reason}. Set RAY_TMPDIR to a short path on a "
            "disk with free space, or use --driver local."
        )
    return (
        f"the Ray cluster at {address} cannot be reached: {reason}. Check {ADDRESS}, and that the "
        f"cluster runs Ray {version} like this machine. If it requires a token, set "
        "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH."
    )


def _ray() -> Any:
    """Import Ray."""
    if find_spec("ray") is None:
        raise MissingExtraError(
            "Ray is not installed. Use --driver local, or install Ray: in a Seatrial checkout, run "
            "pip install '.[data,ray]'"
        )
    import ray  # noqa: PLC0415  # an optional extra, and slow to import

    return ray


class _RayRun:
    """The tasks of one call."""

    def __init__(self, ray: Any, job: str, tasks: TaskList, waiting: deque[Task]) -> None:
        self.ray, self.job, self.tasks, self.waiting = ray, job, tasks, waiting
        self.tries: dict[int, int] = {}
        self.submitted: dict[Any, Task] = {}
        # Ray retries lost processes and nodes; other errors are returned as answers.
        self.remote = ray.remote(num_cpus=1, max_retries=TRIES - 1)(do_task)

    def events(self, limit: int) -> Iterator[Event]:
        """Submit tasks and collect records until all are done."""
        while self.waiting or self.submitted:
            while self.waiting and len(self.submitted) < limit:
                task = self.waiting.popleft()
                self.tries[task.number] = self.tries.get(task.number, 0) + 1
                reference = self.remote.remote(self.job, line_of(self.tasks, task))
                self.submitted[reference] = task
            ready, _ = self.ray.wait(list(self.submitted), num_returns=1)
            for reference in ready:
                yield self.collect(self.submitted.pop(reference), reference)

    def collect(self, task: Task, reference: Any) -> Event:
        """Return the outcome of a task."""
        tries = self.tries[task.number]
        try:
            answer = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            # Ray has used up its retries.
            tries = TRIES
            answer = {"error": {"kind": "system", "text": str(error).splitlines()[0]}}
        if "record" in answer:
            return Done(PartRecord.from_json(answer["record"].encode()))
        end = failure(task, answer["error"], tries)
        if end is not None:
            raise end
        self.waiting.appendleft(task)
        return Again(task.number, answer["error"]["text"])

    def close(self) -> None:
        """Cancel the remaining tasks after a failure or a cancelled run."""
        for reference in self.submitted:
            # The cluster itself may be gone.
            with suppress(Exception):
                self.ray.cancel(reference, force=True)


_benches: dict[str, Any] = {}
"""In a Ray process: the bench of the latest job, kept warm."""


def do_task(job: str, line: str) -> dict[str, Any]:
    """In a Ray process: do the task of a line."""
    limit_threads()
    if job not in _benches or memory_in_use() > LARGEST_MEMORY:
        _benches.clear()
        _benches[job] = Bench(Job.from_json(job))
    answer: dict[str, Any] = _benches[job].attempt(line)
    return answer
