# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""200 SIGKILLs: the output is bit for bit that of an undisturbed preparation, and nothing is left.

The seed is printed; SEATRIAL_KILL_SEED repeats it, SEATRIAL_KILLS changes the number.
"""

import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.kills import Bench, children, kill_at_call, kill_at_random

pytestmark = [pytest.mark.faults, pytest.mark.timeout(3600)]

KILLS = int(os.environ.get("SEATRIAL_KILLS", "200"))
RAY_SHARE = 0.1
CALLS = (("link", "parent"), ("replace", "parent"), ("unlink", "parent"), ("fsync", "parent"))
WORKER_CALLS = (("link", "worker"), ("replace", "worker"), ("fsync", "worker"))


def seed() -> int:
    """The seed of this run, said so that it can be repeated."""
    number = int(os.environ.get("SEATRIAL_KILL_SEED", random.randrange(1 << 16)))  # noqa: S311
    print(f"\nSEATRIAL_KILL_SEED={number}")  # noqa: T201
    return number


def say(bench: Bench) -> None:
    """What was done, for the record."""
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(bench.kills.items()))
    print(f"{bench.kills.total()} kills ({kinds}), {bench.finished} finished and compared")  # noqa: T201


@pytest.mark.parametrize(("function", "inside"), [*CALLS, *WORKER_CALLS])
def test_killed_at_every_commit_and_every_step_of_the_merge(
    tmp_path: Path, function: str, inside: str
) -> None:
    """Each call in turn: the list, the records, the merged files, blend, record, clean-up."""
    bench = Bench(tmp_path, 0)
    number = 1
    while kill_at_call(bench, function, inside, number):
        number += 1
    say(bench)
    # A preparation of 9 tasks and 5 files commits at least that often.
    assert number > 5


def test_killed_at_random_moments(tmp_path: Path) -> None:
    bench = Bench(tmp_path, seed())
    kill_at_random(bench, round(KILLS * (1 - RAY_SHARE)))
    say(bench)
    assert bench.kills["parent"] > 0
    assert bench.kills["worker"] > 0


@pytest.fixture
def ray_cluster(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A Ray cluster on the loopback, apart from the preparations; gives the variables to reach it.

    Ray asks for a token; this cluster gets one of its own.
    """
    pytest.importorskip("ray")
    token = tmp_path / "ray-token"
    token.touch(0o600)
    token.write_text(secrets.token_hex(32))
    variables = {
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
    }
    log = (tmp_path / "ray.log").open("wb")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block"),
            *("--node-ip-address=127.0.0.1", "--port=46379", "--num-cpus=2"),
            *("--include-dashboard=false", "--disable-usage-stats"),
        ],
        env=os.environ | variables,
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    end = time.monotonic() + 90
    while "--block" not in (tmp_path / "ray.log").read_text() and time.monotonic() < end:
        time.sleep(0.5)
    try:
        yield variables | {"RAY_ADDRESS": "127.0.0.1:46379"}
    finally:
        log.close()
        left = children(process.pid)
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def test_killed_on_ray(tmp_path: Path, ray_cluster: dict[str, str]) -> None:
    """Parents and processes of a cluster that stays."""
    bench = Bench(tmp_path, seed(), ray_cluster)
    kill_on_ray(bench, round(KILLS * RAY_SHARE))
    say(bench)
    assert bench.kills["ray worker"] > 0
    assert bench.kills["parent"] > 0


def test_a_ray_of_its_own_leaves_another_cluster_alone(
    tmp_path: Path, ray_cluster: dict[str, str]
) -> None:
    """Without RAY_ADDRESS, beside a cluster that runs on the same machine."""
    alone = {name: value for name, value in ray_cluster.items() if name != "RAY_ADDRESS"}
    # Where the other cluster has noted that it runs, and short enough for the names of sockets.
    alone["RAY_TMPDIR"] = tempfile.gettempdir()
    bench = Bench(tmp_path, 0, alone)
    process = bench.start("out", "ray")
    seen = 0
    while process.poll() is None:
        busy = tasks_of_ray()
        own = children(process.pid)
        # One that has ended between the two looks is nobody's child any more.
        seen += sum(pid in own for pid in busy)
        strangers = [pid for pid in busy if pid not in own and Path(f"/proc/{pid}").exists()]
        assert process.poll() is not None or not strangers
        time.sleep(0.02)
    assert process.returncode == 0, (tmp_path / "stderr").read_text()[-2000:]
    assert seen > 0
    bench.check("out")


def kill_on_ray(bench: Bench, kills: int) -> None:
    """Kill parents, and processes of Ray that are at a task."""
    while bench.kills.total() < kills:
        process = bench.start("out", "ray")
        try:
            began = time.monotonic()
            patience = bench.random.uniform(1, 4 * bench.seconds)
            while process.poll() is None and bench.kills.total() < kills:
                time.sleep(bench.random.uniform(0, 0.3))
                busy = tasks_of_ray()
                if busy and bench.random.random() < 0.3:
                    bench.kill(bench.random.choice(busy), "ray worker")
                elif time.monotonic() - began > patience:
                    bench.kill(process.pid, "parent")
                    process.wait()
        finally:
            if process.poll() is None and bench.kills.total() < kills:
                process.kill()
        process.wait(120)
        if process.returncode == 0:
            bench.check("out")
    bench.finish("out", "ray")


def tasks_of_ray() -> list[int]:
    """Processes of Ray that are at one of our tasks."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::do_task"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found
