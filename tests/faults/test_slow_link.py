# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Eight nodes in network namespaces, one of them behind a slow link: the preflight finds it.

Each node runs the preflight of a pod, with torch and gloo, and its own network interface. The link
of one node is limited with tc's token bucket filter. Needs root. Prints rounds and bandwidths:

    make faults ARGS='-k slow_link'
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.codes.preflight import PreflightCode
from seatrial.engine_process.package_path import python_path
from seatrial.engine_process.process import worker_python
from seatrial.engines.registry import ENGINES
from seatrial.monitoring.event_log import Event, EventKind, read_events
from seatrial.monitoring.node_measurements import measurements_of
from seatrial.spec.engine import DEFAULT_ENGINE

pytestmark = [
    pytest.mark.faults,
    pytest.mark.engine,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="makes network namespaces"),
]

NODES = 8
HUB = "preflight-hub"
LIMIT = "50mbit"


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True, timeout=60)


def space(node: int) -> str:
    return f"preflight-{node}"


@pytest.fixture
def nodes() -> Iterator[None]:
    """Namespaces with one interface each, all on one bridge that leads nowhere else."""
    names = [HUB, *map(space, range(NODES))]
    had_namespaces = Path("/run/netns").is_mount()
    try:
        for name in names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", HUB, "link", "add", "bridge", "type", "bridge")
        ip("-n", HUB, "link", "set", "bridge", "up")
        for node in range(NODES):
            peer = ("peer", "name", "eth0", "netns", space(node))
            ip("-n", HUB, "link", "add", f"port{node}", "type", "veth", *peer)
            ip("-n", HUB, "link", "set", f"port{node}", "master", "bridge", "up")
            ip("-n", space(node), "address", "add", f"10.97.0.{node + 10}/24", "dev", "eth0")
            ip("-n", space(node), "link", "set", "eth0", "up")
        yield
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)
        if not had_namespaces and not list(Path("/run/netns").glob("*")):
            subprocess.run(["umount", "/run/netns"], check=False, capture_output=True)


def limit(node: int, rate: str) -> None:
    """Limit what a node sends and receives."""
    bucket = ("root", "tbf", "rate", rate, "burst", "64kb", "latency", "50ms")
    for name, interface in ((space(node), "eth0"), (HUB, f"port{node}")):
        words = ["tc", "-n", name, "qdisc", "add", "dev", interface, *bucket]
        subprocess.run(words, check=True, capture_output=True, text=True, timeout=60)


def preflight(node: int, directory: Path) -> subprocess.Popen[str]:
    options = {
        "mount": "/",
        "directory": str(directory),
        "nodes": NODES,
        "processes": 1,
        "node-rank": node,
        "master-addr": "10.97.0.10",
        "master-port": 29400,
    }
    environment = {
        **os.environ,
        "PYTHONPATH": python_path(),
        "SEATRIAL_DEVICE": "cpu",
        "SEATRIAL_EVENTS": str(directory / "events.jsonl"),
        "SEATRIAL_ATTEMPT": "1",
        "OMP_NUM_THREADS": "1",
        "NODE_NAME": f"node-{node}",
        "GLOO_SOCKET_IFNAME": "eth0",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    words = [*("ip", "netns", "exec", space(node)), worker_python(ENGINES[DEFAULT_ENGINE])]
    words += ["-m", "seatrial.worker.node.preflight"]
    return subprocess.Popen(
        [*words, *(f"--{name}={value}" for name, value in options.items())],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(directory: Path) -> tuple[list[int], list[str], Event]:
    """The exit codes and outputs of all nodes, and the event."""
    started = [preflight(node, directory) for node in range(NODES)]
    try:
        printed = [process.communicate(timeout=500)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    codes = [process.returncode for process in started]
    found = list(read_events(directory / "events.jsonl"))
    assert [event.kind for event in found] == [EventKind.PREFLIGHT], "\n".join(printed)
    for each in found[0].values["rounds"]:
        tell(f"round {each['round']}  {' and '.join(each['nodes'])}  {each['gb_s']:.4f} GB/s")
    return codes, printed, found[0]


@pytest.mark.usefixtures("nodes")
def test_a_slow_link_among_eight_is_found_in_three_rounds(tmp_path: Path) -> None:
    slow = 5
    limit(slow, LIMIT)
    codes, printed, event = run(tmp_path)
    rounds = max(each["round"] for each in event.values["rounds"])
    measured = {one.node: one for one in measurements_of(event)}
    for name, one in measured.items():
        tell(f"{name}  between {one.between_gb_s} GB/s  {'slow' if one.is_slow else ''}")
    tell(f"found {event.values['slow']} in {rounds} rounds; limit {LIMIT} is 0.00625 GB/s")
    assert event.values["slow"] == [f"node-{slow}"], "\n".join(printed)
    assert rounds <= 3
    assert measured[f"node-{slow}"].between_gb_s == pytest.approx(0.00625, rel=0.25)
    # Every node fails, so that the job ends; only the slow one for a reason of its own.
    assert set(codes) == {1}
    told = [PreflightCode.SLOW_NETWORK in text for text in printed]
    assert told == [node == slow for node in range(NODES)]
    history = tmp_path / "preflight" / f"node-{slow}.jsonl"
    (line,) = map(json.loads, history.read_text().splitlines())
    assert line["codes"] == [PreflightCode.SLOW_NETWORK]
    assert line["measured"]["is_slow"] is True


@pytest.mark.usefixtures("nodes")
def test_eight_equal_links_are_left_alone(tmp_path: Path) -> None:
    codes, printed, event = run(tmp_path)
    assert event.values["slow"] == []
    assert set(codes) == {0}, "\n".join(printed)
    assert len(list((tmp_path / "preflight").iterdir())) == NODES
