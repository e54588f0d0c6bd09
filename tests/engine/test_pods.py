# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What runs inside pods, with real torch and engine: nodes that meet, a save on SIGTERM."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from seatrial.engine_process.package_path import python_path
from seatrial.engine_process.process import worker_python
from seatrial.engines.megatron.command_line import command_line
from seatrial.monitoring.event_log import EventKind, read_events
from tests.conftest import MEGATRON
from tests.engine.toy import DENSE

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

ENVIRONMENT = {
    "SEATRIAL_DEVICE": "cpu",
    "GLOO_SOCKET_IFNAME": "lo",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "CUDA_DEVICE_MAX_CONNECTIONS": "1",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    "PYTHONWARNINGS": "ignore",
}


def started(words: list[str], log: Path, **variables: str) -> subprocess.Popen[bytes]:
    """A process of the worker's environment, in a session of its own."""
    settings = {**os.environ, **ENVIRONMENT, **variables, "PYTHONPATH": python_path()}
    with log.open("wb") as stream:
        return subprocess.Popen(
            [worker_python(MEGATRON), *words],
            env=settings,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def meeting(tmp_path: Path, directories: tuple[str, str], port: int) -> list[tuple[int, str]]:
    """The exit code and the lines of each of two nodes that look at themselves and meet."""
    nodes = []
    for rank, directory in enumerate(directories):
        words = [
            *(
                "-m",
                "seatrial.worker.node.preflight",
                "--mount=/dev/shm",
                f"--directory={directory}",
            ),
            *("--nodes=2", "--processes=1", f"--node-rank={rank}"),
            *("--master-addr=127.0.0.1", f"--master-port={port}"),
        ]
        log = tmp_path / f"node-{rank}.log"
        nodes.append((started(words, log, NODE_NAME=f"node-{rank}"), log))
    try:
        return [(process.wait(timeout=800), log.read_text()) for process, log in nodes]
    finally:
        for process, _ in nodes:
            process.terminate()


def test_nodes_that_are_well_meet(tmp_path: Path) -> None:
    place = f"/dev/shm/seatrial-{os.getpid()}-well"
    try:
        first, second = meeting(tmp_path, (place, place), 29431)
        assert (first[0], second[0]) == (0, 0), first[1] + second[1]
        assert "all-reduce of 16 MiB over 2 ranks" in first[1]
        histories = sorted(path.name for path in Path(place, "preflight").iterdir())
        assert histories == ["node-0.jsonl", "node-1.jsonl"]
        assert [path.name for path in Path(place).iterdir()] == ["preflight"]
    finally:
        shutil.rmtree(place)


def test_a_node_with_another_volume_is_found(tmp_path: Path) -> None:
    places = tuple(f"/dev/shm/seatrial-{os.getpid()}-{name}" for name in "ab")
    try:
        first, second = meeting(tmp_path, (places[0], places[1]), 29432)
        assert second[0] == 1, second[1]
        assert "ST-PREFLIGHT-008 node-1" in second[1]
        # The other ends with it, without a fault of its own.
        assert first[0] == 1
        assert "ST-PREFLIGHT-006 node-0" in first[1]
        assert "ST-PREFLIGHT-008" not in first[1]
    finally:
        for place in places:
            shutil.rmtree(place, ignore_errors=True)


def test_a_rank_that_is_asked_to_end_makes_all_save_and_none_succeed(tmp_path: Path) -> None:
    saves, events = tmp_path / "saves", tmp_path / "events.jsonl"
    arguments = {
        **DENSE,
        "train-iters": 100_000,
        "save": str(saves),
        "save-interval": 50_000,
        "exit-signal-handler": True,
    }
    words = [
        *("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"),
        *("--max-restarts=0", "--module", "seatrial.worker.megatron.pod", *command_line(arguments)),
    ]
    log = tmp_path / "log"
    process = started(words, log, SEATRIAL_EVENTS=str(events))
    try:
        rank = _first_rank(process, events)
        os.kill(rank, signal.SIGTERM)
        code = process.wait(timeout=800)
    finally:
        process.terminate()
        process.wait(timeout=60)
    text = log.read_text()
    assert code != 0, text
    assert text.count("saved a checkpoint and stopped before the last step") == 2, text
    saved = [event.step for event in read_events(events) if event.kind is EventKind.SAVE]
    assert len(saved) == 1
    assert int((saves / "latest_checkpointed_iteration.txt").read_text()) == saved[0] > 0


def _first_rank(process: subprocess.Popen[bytes], events: Path) -> int:
    """A process that trains, once it has done some steps."""
    until = time.monotonic() + 800
    while time.monotonic() < until and process.poll() is None:
        if events.exists() and events.read_text().count('"step"') > 3:
            return int(_children(process.pid)[0])
        time.sleep(0.5)
    raise AssertionError("it never trained")


def _children(parent: int) -> list[str]:
    return Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
