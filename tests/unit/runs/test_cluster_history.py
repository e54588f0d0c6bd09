# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The history of a run on a cluster: what its pods print, or its event log through a reader."""

import io
from pathlib import Path

import pytest

from seatrial.catalog.catalog import Catalog
from seatrial.cluster.kinds import POD
from seatrial.errors import FindingsError, UsageError
from seatrial.monitoring.event_log import Event, EventKind, encoded
from seatrial.runs.history.history import Begun, Planned
from seatrial.runs.history.locate import (
    ASK_SECONDS,
    Places,
    Remembered,
    cluster_history,
    find_history,
)
from seatrial.runs.namespace import Site
from tests.unit.cluster.fake_api import FakeTime, FakeTransport
from tests.unit.monitoring.made_up_run import whole_run
from tests.unit.runs.fake_cluster import CATALOG, jobs, launch, pod_of, running, site_of, wanted
from tests.unit.runs.test_history import write_steps

RUN = wanted().plan.spec.name
STEP = (
    " iteration {step:8d}/     100 | consumed samples: 8 |"
    " elapsed time per iteration (ms): 2000.0 | learning rate: 1.0E-04 | global batch size: 8 |"
    " lm loss: 2.500000E+00 | loss scale: 1.0 |"
    " grad norm: 1.0 | number of skipped iterations: 0 | number of nan iterations: 0 |"
)


@pytest.fixture
def server() -> FakeTransport:
    server = FakeTransport()
    launch(site_of(server), wanted(), lambda _: True)
    return server


def test_what_pods_print_is_told_as_the_newest_attempt(server: FakeTransport) -> None:
    (job,) = jobs(server)
    for index in (0, 1):
        pod = server.put(pod_of(job, index, **running()))
        path = POD.path(job["metadata"]["namespace"], pod["metadata"]["name"], "log")
        lines: list[bytes | Exception] = [b"2026-11-15T03:12:00Z hello"]
        if index == 1:
            for step in (1, 2, 3):
                words = STEP.format(step=step)
                lines.append(f"2026-11-15T03:12:1{step}Z [default7]:{words}".encode())
        server.streams[path] = [list(lines), list(lines)]
    history = cluster_history(site_of(server), RUN, CATALOG)
    told = list(history.story())
    steps = [event for event in told if isinstance(event, Event)]
    assert [(event.step, event.values["loss"]) for event in steps] == [(1, 2.5), (2, 2.5), (3, 2.5)]
    assert steps[1].time - steps[0].time == 1.0
    (attempt,) = history.attempts
    assert attempt.number == 1
    assert attempt.submitted is not None
    printed = list(attempt.logs[0].lines())
    assert any(b"[rank15]:" in line and b"iteration        3/" in line for line in printed)
    assert any(b"[pod/node-0] hello" in line for line in printed)


def reading(server: FakeTransport, lines: list[bytes], code: int = 0) -> Site:
    """A site where the reader of the volume comes up and prints."""
    time = FakeTime()

    def comes_up() -> None:
        for (plural, namespace, name), item in list(server.objects.items()):
            if plural == "pods" and "reader" in name and not item.get("status"):
                ended = [{"name": "read", "state": {"terminated": {"exitCode": code}}}]
                phase = "Failed" if code else "Succeeded"
                item["status"] = {"phase": phase, "containerStatuses": ended}
                stamped: list[bytes | Exception] = [b"2026-11-15T03:12:00Z " + x for x in lines]
                server.streams[POD.path(namespace, name, "log")] = [stamped]

    time.on_sleep = comes_up
    return site_of(server, time)


def test_with_the_spec_the_whole_event_log_is_read_from_the_volume(server: FakeTransport) -> None:
    lines = [encoded(event).rstrip(b"\n") for event in whole_run()]
    known = Planned(wanted().plan, None)
    history = cluster_history(reading(server, lines), RUN, CATALOG, known)
    told = list(history.story())
    steps = [event for event in told if isinstance(event, Event) and event.kind is EventKind.STEP]
    assert len(steps) == 48
    assert [each.attempt.number for each in told if isinstance(each, Begun)] == [1]
    made = next(c.body for c in server.calls if c.method == "POST" and c.path.endswith("/pods"))
    assert made is not None
    command = made["spec"]["containers"][0]["command"]
    home = f"{wanted().plan.spec.cluster.storage.mount}/{RUN}"
    assert command[-4:] == ["watch", home, "--json", "--once"]


def test_a_reader_that_fails_says_why(server: FakeTransport) -> None:
    site = reading(server, [b"seatrial: /data/slim-7b holds no event log"], code=2)
    history = cluster_history(site, RUN, CATALOG, Planned(wanted().plan, None))
    with pytest.raises(UsageError, match="volume: seatrial: /data/slim-7b holds no"):
        list(history.story())


def test_a_run_that_is_nowhere_is_refused(tmp_path: Path) -> None:
    site = site_of(FakeTransport())
    places = Places(Catalog(), io.BytesIO(), lambda _: site, tmp_path)
    with pytest.raises(FindingsError, match="no run named nobody in"):
        find_history("nobody", places)


def test_without_a_run_on_the_cluster_its_rehearsal_is_shown(tmp_path: Path) -> None:
    twin = tmp_path / ".seatrial" / "slim-7b" / "rehearsal-2026-11-15T03-10-00" / "twin-1"
    write_steps(twin / "straight.events.jsonl", 1, 3, 1_794_744_000.0)

    def away(_: str) -> Site:
        raise UsageError("there is no kubeconfig")

    for site in (away, lambda _: site_of(FakeTransport())):
        found = find_history("slim-7b", Places(Catalog(), io.BytesIO(), site, tmp_path))
        assert "straight" in found.place


def test_a_cluster_is_not_asked_at_every_look() -> None:
    now, answers = [0.0], iter("ab")
    remembered = Remembered(lambda: next(answers), lambda: now[0])
    assert [remembered(), remembered()] == ["a", "a"]
    now[0] = ASK_SECONDS
    assert remembered() == "b"
