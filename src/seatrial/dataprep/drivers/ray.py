# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The driver for a Ray cluster: plain remote tasks, nothing in the object store.

A line of the list goes in and a record of some hundred bytes comes back, which Ray passes inside
its messages. Texts and tokens never go through Ray: workers read and write the stores themselves.
So a head that is lost costs time and no data, and Ray Data's overhead (2 to 5 times the wall time
of the pool, measured) does not arise.
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
"""Ray's own variable for the cluster to use."""
_OWN = "local"
"""Ray's word for a cluster that it starts for this process. Without an address at all, it would
look for any cluster on this machine and join it, somebody else's too."""
_ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
"""Variables that Ray and the programs that it starts read."""
_AHEAD = 2
"""Tasks that are submitted for each CPU: one that runs, and one that need not wait for us."""


class RayError(SeatrialError):
    """The Ray cluster cannot be used."""


@dataclass
class RayDriver:
    """Runs tasks on a Ray cluster."""

    workers: int
    """CPUs of the cluster that is started here when there is none; else tasks at a time."""
    address: str | None = None
    """A running cluster; RAY_ADDRESS when absent, and without that one is started and stopped."""
    start_seconds: float = field(default=0.0, init=False)
    """What connecting to Ray, or starting it, took."""

    def run(self, job: PendingJob, tasks: TaskList, wanted: Sequence[Task]) -> Iterator[Event]:
        """Run tasks; see Driver."""
        if not wanted:
            return
        address = self.address or os.environ.get(ADDRESS) or _OWN
        # What is started here is for this process alone. Ray would listen on all addresses; as on
        # a Mac, where it does not form clusters, it keeps to the loopback.
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
        """Tasks to have submitted at a time."""
        cpus = int(ray.cluster_resources().get("CPU", self.workers))
        return _AHEAD * max(1, cpus)


def _refusal(address: str, error: Exception, version: str) -> str:
    """Why there is no cluster, and what to do."""
    said = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
    if address == _OWN:
        return (
            f"no Ray can be started on this machine: {said}. Set RAY_TMPDIR to a short path on a "
            "disk with room, or use --driver local."
        )
    return (
        f"the Ray cluster at {address} cannot be reached: {said}. Check {ADDRESS}, that its "
        f"version is {version} as here, and, if it asks for a token, RAY_AUTH_MODE=token with "
        "RAY_AUTH_TOKEN_PATH."
    )


def _ray() -> Any:
    """The module of Ray."""
    if find_spec("ray") is None:
        raise MissingExtraError(
            "Ray is not installed. Install it with: pip install '.[data,ray]' in a checkout of "
            "Seatrial, or use --driver local."
        )
    import ray  # noqa: PLC0415  # an extra of its own, and slow to load

    return ray


class _RayRun:
    """The tasks of one call."""

    def __init__(self, ray: Any, job: str, tasks: TaskList, waiting: deque[Task]) -> None:
        self.ray, self.job, self.tasks, self.waiting = ray, job, tasks, waiting
        self.tries: dict[int, int] = {}
        self.submitted: dict[Any, Task] = {}
        # Ray tries again when a process or a node is lost; other errors come back as answers.
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
        """What came of a task."""
        tries = self.tries[task.number]
        try:
            answer = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            # Ray has tried as often as it may.
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
        """Cancel what is left, when the run has failed or was given up."""
        for reference in self.submitted:
            # The cluster itself may be what was lost.
            with suppress(Exception):
                self.ray.cancel(reference, force=True)


_benches: dict[str, Any] = {}
"""In a process of Ray: the bench of the newest job, kept warm."""


def do_task(job: str, line: str) -> dict[str, Any]:
    """In a process of Ray: do the task of a line."""
    limit_threads()
    if job not in _benches or memory_in_use() > LARGEST_MEMORY:
        _benches.clear()
        _benches[job] = Bench(Job.from_json(job))
    answer: dict[str, Any] = _benches[job].attempt(line)
    return answer
