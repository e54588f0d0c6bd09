# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One run in a real cluster that loses torchrun, all its pods by a drain, and a pod: bit-equal.

torchrun is killed inside of a pod, and the supervisor starts it again there; the pods are evicted
as a drain does it, and save; a pod is deleted without grace. The losses must be those of a run that
nobody has disturbed.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.codes.supervisor import SupervisorCode
from seatrial.monitoring.event_log import EventKind, read_events
from seatrial.monitoring.processes import PROCESSES, variables
from tests.cluster.cluster import Cluster
from tests.cluster.scene import OPERATORS, Scene, until
from tests.cluster.toy_run import starts

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(3000)]

STEPS = 160
SAVE_EVERY = 10
RUN = "struck"


@pytest.fixture(params=OPERATORS)
def place(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> Iterator[Scene]:
    made = Scene(cluster, request.param, tmp_path)
    yield made
    cluster.delete_namespace(made.namespace)


def agents(pod: str) -> list[int]:
    """The processes of torchrun in a pod; the node's processes are this machine's too."""
    found = []
    for entry in PROCESSES.glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        number = int(entry.name)
        if b"torch.distributed.run" in words and variables(number).get("POD_NAME") == pod:
            found.append(number)
    return found


def pods(place: Scene) -> list[str]:
    return [name for name in place.pods() if name.startswith(f"{RUN}-")]


def goes_on(place: Scene, before: int) -> None:
    """Wait for another start, and for steps after it."""
    until(lambda: len(starts(place.volume, RUN)) > before, "another start")
    resumed = starts(place.volume, RUN)[-1]
    until(lambda: place.newest_step(RUN) > resumed + 2, "steps after it")


def evict(place: Scene, pod: str) -> None:
    """Ask a pod to go, as a drain does."""
    path = f"/api/v1/namespaces/{place.namespace}/pods/{pod}/eviction"
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": place.namespace},
    }
    answer = place.cluster.api().ask("POST", path, body)
    assert answer.accepted, answer.message


def test_a_run_that_is_struck_three_times_computes_the_same(place: Scene) -> None:
    place.seatrial.run("launch", place.write_spec("calm", STEPS, SAVE_EVERY))
    undisturbed = place.succeeds("calm")
    assert sorted(undisturbed) == list(range(1, STEPS + 1))

    place.seatrial.run("launch", place.write_spec(RUN, STEPS, SAVE_EVERY))
    until(lambda: place.newest_step(RUN) >= SAVE_EVERY + 5, "training")
    before, (victim, *_) = len(starts(place.volume, RUN)), pods(place)
    (agent,) = agents(victim)
    os.kill(agent, signal.SIGKILL)
    goes_on(place, before)
    assert victim in pods(place), "the pod stays: its supervisor starts torchrun again"

    before = len(starts(place.volume, RUN))
    for pod in pods(place):
        evict(place, pod)
    goes_on(place, before)

    before = len(starts(place.volume, RUN))
    assert place.newest_step(RUN) < STEPS - SAVE_EVERY, "it is over too soon to be struck again"
    place.kill_pod(pods(place)[-1])
    goes_on(place, before)
    assert place.succeeds(RUN) == undisturbed
    events = read_events(place.volume / RUN / "events.jsonl")
    codes = [e.values["code"] for e in events if e.kind is EventKind.FINDING]
    assert SupervisorCode.AGENT in codes
    assert SupervisorCode.ASKED in codes
    print(  # noqa: T201
        f"{place.operator}: torchrun killed, pods evicted, a pod deleted; resumed at "
        f"{starts(place.volume, RUN)[1:]}; {len(undisturbed)} losses, 0 bits differ"
    )
