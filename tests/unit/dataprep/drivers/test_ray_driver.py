# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which cluster the Ray driver uses; tests/faults has what it does there, with a real one."""

import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from seatrial.dataprep.drivers.driver import Job, PendingJob, TaskFailedError
from seatrial.dataprep.drivers.ray import ADDRESS, RayDriver, RayError
from tests.unit.dataprep.drivers.test_local_driver import task_list


@dataclass
class FakeRay:
    """A machine on which somebody's cluster runs already, with as much of Ray as is used."""

    joined: list[str] = field(default_factory=list)
    started: list[int] = field(default_factory=list)
    stopped: int = 0
    error: Exception | None = None

    def init(self, address: str | None = None, num_cpus: int | None = None, **_: Any) -> None:
        """As Ray does: without an address the cluster that is found is joined."""
        if self.error is not None:
            raise self.error
        if address == "local":
            self.started.append(num_cpus or 0)
            return
        if num_cpus is not None:
            raise ValueError("When connecting to an existing cluster, num_cpus must not be given.")
        self.joined.append(address or "somebody else's")

    def module(self) -> ModuleType:
        """Ray, of which every task comes back as bad input."""
        answer = {"error": {"kind": "fixable", "text": "seen"}}

        def stop() -> None:
            self.stopped += 1

        ray: Any = ModuleType("ray")
        ray.__spec__ = SimpleNamespace(name="ray")
        ray.__version__ = "2.60"
        ray.init = self.init
        ray.shutdown = stop
        ray.is_initialized = lambda: False
        ray.cluster_resources = lambda: {"CPU": 2.0}
        ray.remote = lambda **_: lambda function: SimpleNamespace(remote=lambda *_: object())
        ray.wait = lambda references, num_returns: (references[:num_returns], [])
        ray.get = lambda reference: answer
        ray.cancel = lambda reference, force: None
        ray.exceptions = SimpleNamespace(RayError=RuntimeError)
        return ray  # type: ignore[no-any-return]


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", fake.module())
    monkeypatch.delenv(ADDRESS, raising=False)
    return fake


def run(driver: RayDriver) -> None:
    tasks = task_list("/absent")
    with pytest.raises(TaskFailedError, match="seen"):
        list(driver.run(PendingJob(Job.of(tasks, "/out"), lambda: "b"), tasks, tasks.tasks))


def test_without_an_address_it_starts_its_own_beside_another_cluster(ray: FakeRay) -> None:
    run(RayDriver(3))
    assert (ray.started, ray.joined, ray.stopped) == ([3], [], 1)


def test_the_word_local_means_its_own_too(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS, "local")
    run(RayDriver(2))
    assert (ray.started, ray.joined) == ([2], [])


def test_a_cluster_that_is_named_is_joined(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS, "head:6379")
    run(RayDriver(2))
    run(RayDriver(2, "other:6379"))
    assert (ray.started, ray.joined) == ([], ["head:6379", "other:6379"])


@pytest.mark.parametrize(
    ("address", "error", "said"),
    [
        (None, OSError("AF_UNIX path length cannot exceed 107 bytes"), r"path length.*RAY_TMPDIR"),
        (None, RuntimeError(), r"RuntimeError.*--driver local"),
        ("head:6379", ConnectionError("nobody there"), r"head:6379.*nobody there.*Ray 2\.60 "),
    ],
)
def test_no_cluster_is_an_error_with_a_fix(
    ray: FakeRay, address: str | None, error: Exception, said: str
) -> None:
    ray.error = error
    tasks = task_list("/absent")
    job = PendingJob(Job.of(tasks, "/out"), lambda: "b")
    with pytest.raises(RayError, match=said):
        list(RayDriver(1, address).run(job, tasks, tasks.tasks))
