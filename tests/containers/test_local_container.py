# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A run on this host in a podman container of the CPU image: it trains, is killed, and resumes.

Needs root, Debian's podman and the CPU image, which is built once. `make local-container`.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts.build_image import Variant, build, default_cache
from seatrial.monitoring.event_log import EventKind, read_events
from seatrial.runs.ledger.host import LocalRun, local_run
from tests.debian import install

pytestmark = [pytest.mark.containers, pytest.mark.timeout(3600)]

STEPS = 60
SPEC = """apiVersion: seatrial.dev/v1alpha1
name: pond
model:
  dimensions: {{family: llama, layers: 4, hidden_size: 128, heads: 4, kv_heads: 2,
               vocab_size: 2048, max_positions: 256}}
data: {{mock: true}}
training: {{steps: {steps}, sequence_length: 128, micro_batch_size: 2, global_batch_size: 8}}
parallelism: {{tp_size: 2, pp_size: 1}}
checkpoints: {{every_steps: 10}}
monitoring: {{prometheus: {{enabled: false}}}}
cluster:
  profile: local
  container: podman
  image: {image}
  processes_per_node: 2
  storage: {{mount: {mount}}}
"""


SETTINGS = """[containers]
cgroupns = "host"
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
"""
WRAPPER = """#!/bin/sh
# Podman raises the limit on processes, for which this host may lack the capability.
podman={podman}
[ "$1" = run ] || exec "$podman" "$@"
shift
exec "$podman" run --ulimit=nproc=10000:10000 "$@"
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The CPU image in podman's store, and settings with which podman works inside a sandbox."""
    install({"podman": "podman", "runc": "runc"})
    directory = tmp_path_factory.mktemp("podman")
    (directory / "containers.conf").write_text(SETTINGS)
    wrapper = directory / "podman"
    wrapper.write_text(WRAPPER.format(podman=shutil.which("podman")))
    wrapper.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_CONF", str(directory / "containers.conf"))
        patch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
        built = build(Variant.CPU, default_cache())
        subprocess.run(["podman", "load", "--quiet", "--input", str(built.archive)], check=True)
        yield built.reference
        subprocess.run(["podman", "image", "rm", "--force", built.reference], check=False)


@pytest.fixture
def run(tmp_path: Path, image: str) -> Iterator[LocalRun]:
    """The run of a spec in a directory of its own, stopped at the end."""
    spec = SPEC.format(steps=STEPS, image=image, mount=tmp_path / "volume")
    (tmp_path / "run.yaml").write_text(spec)
    yield local_run(tmp_path, "pond")
    seatrial(tmp_path, "stop", "pond", check=False)
    assert containers() == []


def seatrial(directory: Path, *words: str, check: bool = True) -> str:
    argv = [sys.executable, "-m", "seatrial", *words]
    done = subprocess.run(argv, cwd=directory, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def containers() -> list[str]:
    """The containers of the run that podman knows."""
    argv = ["podman", "ps", "--all", "--format={{.Names}}", "--filter=name=seatrial-pond"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


def until(condition: Callable[[], object], seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "took too long"
        time.sleep(0.5)


def steps(directory: Path) -> list[int]:
    events = directory / "volume" / "pond" / "events.jsonl"
    if not events.exists():
        return []
    return [event.step for event in read_events(events) if event.kind is EventKind.STEP]


def committed(directory: Path) -> list[int]:
    listed = seatrial(directory, "checkpoints", "list", "run.yaml", "--json", check=False)
    return [int(one["step"]) for one in json.loads(listed or "{}").get("checkpoints", ())]


def test_it_trains_is_killed_and_resumes(
    run: LocalRun, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    seatrial(tmp_path, "launch", "run.yaml")
    until(lambda: steps(tmp_path) and max(steps(tmp_path)) >= 20)
    assert containers() == ["seatrial-pond-attempt-1" + run_suffix()]
    # Without its supervisor the container must not train on: nobody could find it.
    os.kill(run.supervisor(1), signal.SIGKILL)
    until(lambda: containers() == [], 60)
    reached = max(steps(tmp_path))
    seatrial(tmp_path, "launch", "run.yaml")
    seatrial(tmp_path, "wait", "pond", "--timeout=600")
    trained = steps(tmp_path)
    resumed = trained[trained.index(reached) + 1]
    assert trained[-1] == STEPS
    assert 0 < resumed <= reached + 10
    owners = {path.stat().st_uid for path in (tmp_path / "volume").rglob("*")}
    assert owners == {os.getuid()}
    record_property("figure", f"killed at step {reached}, resumed at {resumed}, {STEPS} steps")


def run_suffix() -> str:
    (name,) = containers()
    return name.removeprefix("seatrial-pond-attempt-1")


def test_it_stops_within_its_grace_period(run: LocalRun, tmp_path: Path) -> None:
    seatrial(tmp_path, "launch", "run.yaml")
    until(lambda: steps(tmp_path))
    seatrial(tmp_path, "stop", "pond")
    assert containers() == []
    assert "stopped" in seatrial(tmp_path, "status", "pond")
    assert committed(tmp_path)
