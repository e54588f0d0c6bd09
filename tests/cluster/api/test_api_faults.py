# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""100 faults between here and a real API server: no job twice, no run lost, soon in step again.

    pytest -m cluster tests/cluster/api/test_api_faults.py -s

With SEATRIAL_LONG_FAULTS=1 the server is away for 60 s, 10 times, among 100 faults; else for 5 s,
once, and there are fewer short faults, so that CI stays short. Launch, status and a watch go on
meanwhile, and `logs --follow` of a run whose node is a stand-in that prints.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.cluster import objects
from seatrial.cluster.errors import ClusterError, ConflictError
from seatrial.cluster.kinds import CONFIG_MAP, PYTORCH_JOB
from seatrial.cluster.transport import Json
from seatrial.cluster.watch import ChangeKind, ObjectWatch
from seatrial.rendering.names import RUN_LABEL
from seatrial.runs.launch.connect import connect
from seatrial.runs.launch.kubernetes import ClusterBackend
from seatrial.runs.launch.launcher import Wanted, launch
from seatrial.runs.namespace import Site
from seatrial.runs.status.observe import find_job, training_pods
from seatrial.runs.status.status import status
from tests.cluster.cluster import Cluster
from tests.cluster.daemon import wait_until
from tests.cluster.faulty_proxy import Fault, FaultyProxy
from tests.cluster.log_follower import LogFollower
from tests.cluster.stub_kubelet import StubKubelet
from tests.conftest import resolved

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(3600)]

LONG = os.environ.get("SEATRIAL_LONG_FAULTS") == "1"
SHORT_FAULTS = 61 if LONG else 9
LOG_FAULTS = 24 if LONG else 6
STOPS = 10 if LONG else 1
STOP_SECONDS = 60.0 if LONG else 5.0
ETCD_RESTARTS = 5 if LONG else 1
RESYNC_SECONDS = 30.0
LOGGED = 9000
"""The number of the run whose logs are followed."""
LOG_KINDS = (
    *(Fault.DROPPED_BEFORE, Fault.CUT_ANSWER, Fault.TOO_MANY),
    *(Fault.INTERNAL, Fault.UNAVAILABLE, Fault.EXPIRED),
)
"""What happens to those who ask for a log; a change or an old version is nothing of theirs."""


@dataclass(slots=True)
class Tally:
    """All faults of a run of these tests."""

    faults: int = 0
    """How many there were."""
    slowest: float = 0.0
    """How long it took at most until all was in step."""

    def add(self, faults: int, slowest: float) -> None:
        self.faults += faults
        self.slowest = max(self.slowest, slowest)


@pytest.fixture(scope="module")
def tally() -> Iterator[Tally]:
    kept = Tally()
    yield kept
    print(  # noqa: T201
        f"\n{kept.faults} faults in one run: 0 duplicate jobs, 0 lost runs, 0 lost or repeated "
        f"lines; in step after {kept.slowest:.1f} s at most"
    )


def wanted(namespace: str, number: int) -> Wanted:
    plan = resolved(f"name=fault-{number}", f"cluster.namespace={namespace}")
    return Wanted(plan, Catalog())


@pytest.fixture(scope="module")
def namespace(control_plane: Cluster) -> Iterator[str]:
    name = control_plane.new_namespace("faults")
    yield name
    control_plane.delete_namespace(name)


@pytest.fixture(scope="module")
def limited(control_plane: Cluster, namespace: str) -> Path:
    """The access of one who may only launch."""
    return control_plane.restricted_kubeconfig(namespace)


@dataclass(frozen=True, slots=True)
class Printing:
    """A run whose pods print, as far as anybody can tell."""

    run: str
    """Its name."""
    nodes: int
    """How many pods it has."""
    kubelet: StubKubelet
    """Where they are."""

    def follow(self, site: Site) -> LogFollower:
        return LogFollower(site, self.run, self.kubelet, self.nodes)


@pytest.fixture(scope="module")
def printing(control_plane: Cluster, namespace: str) -> Iterator[Printing]:
    site = connect(namespace, kubeconfig=str(control_plane.kubeconfig))
    run = wanted(namespace, LOGGED)
    name, nodes = run.plan.spec.name, run.plan.machines.nodes
    launch(ClusterBackend(site), run, lambda _: False)
    job = find_job(site.api, namespace, name)
    assert job is not None
    wait_until(lambda: len(training_pods(site.api, namespace, job)) == nodes, "pods are made")
    with StubKubelet(control_plane).serving() as kubelet:
        for pod in training_pods(site.api, namespace, job):
            kubelet.run_pod(pod)
        yield Printing(name, nodes, kubelet)


@pytest.fixture
def proxy(limited: Path, tmp_path: Path) -> Iterator[FaultyProxy]:
    with FaultyProxy(limited, tmp_path).serving() as serving:
        yield serving


def jobs(site: Site) -> dict[str, Json]:
    found, _ = objects.list_all(site.api, PYTORCH_JOB, site.namespace)
    return {job["metadata"]["name"]: job for job in found}


def uids(site: Site) -> dict[str, str]:
    return {name: job["metadata"]["uid"] for name, job in jobs(site).items()}


def check_once(site: Site, names: set[str], before: dict[str, str]) -> None:
    """Every run has one job, which is the one that it had, and one attempt."""
    there = uids(site)
    assert set(there) == names
    assert {name: uid for name, uid in there.items() if name in before} == before
    ledgers = site.ledgers.read_all()
    for name in names:
        assert [a.number for a in ledgers[name].attempts] == [1], name


class Follower:
    """A watch in a thread of its own, and when it saw what."""

    def __init__(self, site: Site) -> None:
        self.seen: dict[str, float] = {}
        self._ended: ClusterError | None = None
        self._watch = ObjectWatch(site.api, CONFIG_MAP, site.namespace, "faults=marker")
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        # It outlives its test, and then its server.
        try:
            self._see()
        except ClusterError as error:
            self._ended = error

    def _see(self) -> None:
        for change in self._watch.changes():
            if change.kind in (ChangeKind.SEEN, ChangeKind.CHANGED):
                self.seen.setdefault(change.object["metadata"]["name"], time.monotonic())

    def seconds_until(self, name: str, began: float) -> float:
        """How long after `began` it saw an object."""
        while name not in self.seen and time.monotonic() < began + 120:
            assert self._ended is None, self._ended
            time.sleep(0.05)
        return self.seen.get(name, float("inf")) - began


def mark(site: Site, name: str) -> float:
    """Make an object that followers look for; when it was there."""
    head = {"name": name, "namespace": site.namespace, "labels": {"faults": "marker"}}
    marker = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": head}
    # Its name is new: one that is there was made by a try whose answer was lost.
    with suppress(ConflictError):
        objects.create(site.api, marker)
    return time.monotonic()


def test_short_faults(
    control_plane: Cluster, namespace: str, proxy: FaultyProxy, tally: Tally
) -> None:
    direct = connect(namespace, kubeconfig=str(control_plane.kubeconfig))
    site = connect(namespace, kubeconfig=str(proxy.kubeconfig))
    follower = Follower(connect(namespace, kubeconfig=str(proxy.kubeconfig)))
    kinds, slowest = list(Fault), 0.0
    names = set(jobs(direct))
    for number in range(SHORT_FAULTS):
        fault = kinds[number % len(kinds)]
        before = uids(direct)
        proxy.spoil(fault)
        run = wanted(namespace, number)
        done = launch(ClusterBackend(site), run, lambda _: False)
        names.add(done.run)
        assert not launch(ClusterBackend(site), run, lambda _: False).is_new
        assert status(site, done.run).attempt == 1
        if fault is Fault.GONE:
            # It waits for the follower's next watch.
            deadline = time.monotonic() + RESYNC_SECONDS
            while proxy.pending and time.monotonic() < deadline:
                time.sleep(0.1)
        assert not proxy.pending, f"{fault} did not happen"
        slowest = max(
            slowest, follower.seconds_until(f"mark-{number}", mark(direct, f"mark-{number}"))
        )
        check_once(direct, names, before)
    assert len(proxy.happened) == SHORT_FAULTS
    print(  # noqa: T201
        f"{SHORT_FAULTS} short faults: {len(names)} runs, 1 job each; in step after {slowest:.1f} s"
    )
    tally.add(SHORT_FAULTS, slowest)
    assert slowest <= RESYNC_SECONDS


def test_short_faults_of_logs(
    namespace: str, proxy: FaultyProxy, printing: Printing, tally: Tally
) -> None:
    follower = printing.follow(connect(namespace, kubeconfig=str(proxy.kubeconfig)))
    slowest = 0.0
    for number in range(LOG_FAULTS):
        # Cut in the middle, the log is asked for again, and that call is spoilt.
        proxy.spoil(LOG_KINDS[number % len(LOG_KINDS)], "/log")
        began = time.time()
        proxy.cut_logs()
        wait_until(lambda: not proxy.pending, f"fault {number} happens", RESYNC_SECONDS)
        slowest = max(slowest, follower.seconds_until_in_step(began))
    assert len(proxy.happened) == LOG_FAULTS
    lines = follower.check_whole()
    print(  # noqa: T201
        f"{LOG_FAULTS} faults of logs: {lines} lines, none lost, none twice; in step after "
        f"{slowest:.1f} s"
    )
    tally.add(LOG_FAULTS, slowest)
    assert slowest <= RESYNC_SECONDS


def submit(namespace: str, limited: Path, run: Wanted, failed: list[BaseException]) -> None:
    """Launch a run and look at it, and keep what went wrong for the thread that waits."""
    try:
        site = connect(namespace, kubeconfig=str(limited))
        launch(ClusterBackend(site), run, lambda _: False)
        found = status(site, run.plan.spec.name)
        assert found.attempt == 1
    except BaseException as error:
        failed.append(error)


@pytest.mark.parametrize("what", ["API server", "etcd"])
def test_servers_that_go_away(
    control_plane: Cluster,
    namespace: str,
    limited: Path,
    what: str,
    printing: Printing,
    tally: Tally,
) -> None:
    direct = connect(namespace, kubeconfig=str(limited))
    lines = printing.follow(connect(namespace, kubeconfig=str(limited)))
    follower = Follower(connect(namespace, kubeconfig=str(limited)))
    stop, start, times, seconds = {
        "API server": (
            control_plane.stop_api_server,
            control_plane.start_api_server,
            STOPS,
            STOP_SECONDS,
        ),
        "etcd": (control_plane.stop_etcd, control_plane.start_etcd, ETCD_RESTARTS, 3.0),
    }[what]
    slowest, names = 0.0, set(jobs(direct))
    for number in range(times):
        run = wanted(namespace, 1000 + number if what == "etcd" else 2000 + number)
        before = uids(direct)
        failed: list[BaseException] = []
        thread = threading.Thread(target=submit, args=(namespace, limited, run, failed))
        thread.start()
        # In the middle of a launch, each time in another place of it.
        time.sleep(0.1 + 0.15 * number)
        stop()
        time.sleep(seconds)
        start()
        back, hour = time.monotonic(), time.time()
        thread.join(120)
        assert not thread.is_alive()
        assert not failed, failed
        launched = time.monotonic() - back
        name = f"back-{run.plan.spec.name}"
        mark(direct, name)
        logged = lines.seconds_until_in_step(hour)
        slowest = max(slowest, launched, logged, follower.seconds_until(name, back))
        names.add(run.plan.spec.name)
        check_once(direct, names, before)
    label = f"{times} stops of {what} of {seconds:.0f} s"
    print(  # noqa: T201
        f"{label}: {len(names)} runs, 1 job each; {lines.check_whole()} lines, none lost, none "
        f"twice; in step {slowest:.1f} s after it was back"
    )
    tally.add(times, slowest)
    assert slowest <= RESYNC_SECONDS
    assert all(job["metadata"]["labels"][RUN_LABEL] for job in jobs(direct).values())
