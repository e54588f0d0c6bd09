# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Launching on this host, without Kubernetes: torchrun in the background, by the same commands."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from seatrial.cluster.pod_logs import LogLine
from seatrial.engines.registry import ENGINES
from seatrial.errors import FindingsError, UsageError
from seatrial.findings import Finding, Severity
from seatrial.rehearsal.worker_process import PACKAGE, worker_python
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.commands import RENDEZVOUS_PORT, Meeting, training_command
from seatrial.rendering.environment import (
    logger_environment,
    recorder_environment,
    retention_environment,
)
from seatrial.rendering.names import spec_digest
from seatrial.rendering.resources import grace_seconds
from seatrial.rendering.scene import Scene, scene_of
from seatrial.rendering.spec_config import spec_text
from seatrial.runs.codes import RunCode
from seatrial.runs.decision import utc
from seatrial.runs.differences import differences
from seatrial.runs.launch import Confirm, Launched, Wanted
from seatrial.runs.ledger import AttemptRecord, AttemptTakenError, End, Ledger, Outcome
from seatrial.runs.local_ledger import LocalRun
from seatrial.runs.local_rules import refuse_unfit_here
from seatrial.runs.local_supervisor import Task
from seatrial.runs.logs import Asked, RankLine, ranked
from seatrial.runs.own_files import own_digest
from seatrial.runs.status import Status, no_run

KIND = "torchrun"
"""What stands where a job's kind does."""
LOOPBACK = "127.0.0.1"
START_SECONDS = 30.0
"""How long the supervisor may take to start."""
STARTING = "starting"
"""The state of an attempt that is written down and whose supervisor does not run yet."""
_PAUSE_SECONDS = 0.05
_TRIES = 5
"""How often somebody else may be in the way."""


def launch_here(run: LocalRun, wanted: Wanted, confirm: Confirm) -> Launched:
    """Make sure that the run is on this host once, as its spec says.

    Raises FindingsError when this host cannot run it, or when the spec has changed and `confirm`
    says no.
    """
    refuse_unfit_here(wanted.plan, wanted.catalog, wanted.place)
    _make_home(wanted)
    with run.held():
        for _ in range(_TRIES):
            # Held on this host only: on a shared file system another may be faster.
            with suppress(AttemptTakenError):
                return _launch_held(run, wanted, confirm)
    raise UsageError(
        f"others launched {run.name} at the same time, {_TRIES} times in a row. "
        "See seatrial status, and launch again."
    )


def _launch_held(run: LocalRun, wanted: Wanted, confirm: Confirm) -> Launched:
    """Look, and do what is missing; raises AttemptTakenError when somebody else was faster."""
    plan, name = wanted.plan, wanted.plan.spec.name
    ledger, digest = run.read(), spec_digest(plan.spec)
    newest = ledger.newest
    runs_now = newest is not None and run.supervisor(newest.number) != 0
    changed = newest is not None and newest.spec_digest != digest
    if newest is not None and not changed:
        if runs_now:
            return Launched(name, newest.number, False, "it is running", KIND, 0)
        if newest.outcome is Outcome.SUCCEEDED:
            return Launched(name, newest.number, False, "it has succeeded", KIND, 0)
    if newest is not None and changed:
        _agree(run, wanted, newest.number, confirm)
    if newest is not None and runs_now:
        stop_here(run)
    if newest is not None and newest.outcome is None:
        outcome = Outcome.REPLACED if runs_now else Outcome.GONE
        run.end(newest.number, End(utc(datetime.now(UTC)), outcome))
    _begin(run, wanted, ledger)
    why = f"attempt {newest.number} has ended" if newest else "it is new"
    return Launched(name, ledger.next_number, True, why, KIND, 1)


def _make_home(wanted: Wanted) -> None:
    """Make the directory of the run's own files, before anything else is written."""
    home = _scene(wanted, 1).home
    try:
        Path(home).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{home}, where the run's files go, cannot be made: {error.strerror}. "
            "Give a directory of yours: cluster.storage.mount=DIR."
        ) from None


def _scene(wanted: Wanted, number: int, submission: str = "") -> Scene:
    attempt = Attempt(number, (), own_digest(), submission)
    return scene_of(wanted.plan, wanted.catalog, attempt)


def _agree(run: LocalRun, wanted: Wanted, number: int, confirm: Confirm) -> None:
    """Let a changed spec be confirmed; raises when it is not."""
    try:
        before = json.loads(run.file(number, "spec").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        before = {}
    changes = differences(before, json.loads(spec_text(wanted.plan.spec)))
    if not confirm(changes):
        listed = "; ".join(map(str, changes[:20]))
        finding = Finding(
            RunCode.CHANGED,
            Severity.ERROR,
            wanted.place("name"),
            f"{run.name} was launched with another spec: {listed}.",
            run.name,
            "Let the new one take its place by --yes, or give the run another name.",
        )
        raise FindingsError([finding])


def _begin(run: LocalRun, wanted: Wanted, ledger: Ledger) -> None:
    """Write the attempt down, and start its supervisor."""
    plan, number = wanted.plan, ledger.next_number
    submission = uuid4().hex
    scene = _scene(wanted, number, submission)
    python = worker_python(ENGINES[plan.spec.engine.name])
    record = AttemptRecord(
        number,
        submission,
        utc(datetime.now(UTC)),
        KIND,
        spec_digest(plan.spec),
        plan.digest,
        own_digest(),
    )
    run.add(record)
    run.file(number, "spec").write_text(spec_text(plan.spec), encoding="utf-8")
    grace = float(grace_seconds(scene))
    task = Task(number, _words(scene, python), _environment(scene), grace)
    file = run.file(number, "task")
    file.write_text(task.to_text(), encoding="utf-8")
    words = [sys.executable, "-m", "seatrial.runs.local_supervisor", str(file.resolve())]
    with run.file(number, "log").open("ab") as log:
        # It goes into the background by itself, and this returns.
        subprocess.run(  # noqa: S603  (our own words, no shell)
            words,
            env=os.environ | {"PYTHONPATH": _own_path()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            check=False,
        )
    _await_start(run, number)


def _await_start(run: LocalRun, number: int) -> None:
    """Wait until the supervisor holds its lock, or has ended already."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if run.supervisor(number) > 0 or run.file(number, "end").exists():
            return
        time.sleep(0.05)
    run.end(number, End(utc(datetime.now(UTC)), Outcome.FAILED, "its supervisor did not start"))
    raise UsageError(f"the run did not start. See {run.file(number, 'log')}.")


def _own_path() -> str:
    """The search path by which the supervisor finds this Seatrial."""
    return os.pathsep.join(filter(None, (str(PACKAGE.parent), os.environ.get("PYTHONPATH"))))


def _words(scene: Scene, python: str) -> tuple[str, ...]:
    """The command of a pod, with this host's Pythons and a port that is free here.

    The supervisor runs in the Python of this command, and starts torchrun in that of the worker.
    """
    words = training_command(scene, Meeting("0", LOOPBACK), f"{scene.home}/supervisor")
    port = f"--port={RENDEZVOUS_PORT}"
    with socket.create_server((LOOPBACK, 0)) as free:
        here = f"--port={free.getsockname()[1]}"
    # What is escaped for the kubelet is plain here.
    plain = [here if word == port else word.replace("$$(", "$(") for word in words]
    plain.insert(plain.index("--"), f"--python={python}")
    return (sys.executable, *plain[1:])


def _environment(scene: Scene) -> dict[str, str]:
    """What the processes need; the host's own variables stay."""
    values = {
        "SEATRIAL_EVENTS": f"{scene.home}/events.jsonl",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": "1",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(grace_seconds(scene) - 30),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    if scene.on_cpu:
        values |= {"SEATRIAL_DEVICE": "cpu", "TORCHDYNAMO_DISABLE": "1"}
    else:
        values |= recorder_environment(scene)
    values |= logger_environment(scene) | retention_environment(scene)
    values |= ENGINES[scene.plan.spec.engine.name].environment(scene.plan)
    return values | dict(scene.plan.spec.cluster.env)


def status_here(run: LocalRun) -> Status:
    """How a run on this host is."""
    ledger = run.read()
    newest = ledger.newest
    if newest is None:
        raise FindingsError([no_run(str(run.directory), run.name)])
    is_running = run.supervisor(newest.number) != 0
    state = "running" if is_running else str(newest.outcome or Outcome.GONE)
    if not is_running and _is_starting(run, newest):
        state = STARTING
    log = run.file(newest.number, "log")
    return Status(
        run.name,
        f"on this host, log {log}",
        state,
        newest.number,
        newest.submitted,
        newest.submitted if is_running else newest.ended,
        1,
        int(is_running),
        0,
        (),
        ledger.attempts,
    )


def _is_starting(run: LocalRun, attempt: AttemptRecord) -> bool:
    """Whether an attempt is written down and its supervisor is about to start."""
    lock = run.file(attempt.number, "lock")
    # Whoever holds it has written its number there.
    if attempt.outcome is not None or (lock.exists() and lock.stat().st_size > 0):
        return False
    began = datetime.fromisoformat(attempt.submitted)
    return (datetime.now(UTC) - began).total_seconds() < START_SECONDS


def stop_here(run: LocalRun) -> bool:
    """Ask the processes to save and end, and wait for it; whether there was something to stop."""
    newest = run.read().newest
    if newest is None:
        return False
    while _is_starting(run, newest):
        time.sleep(_PAUSE_SECONDS)
    process = run.supervisor(newest.number)
    if process <= 0:
        return False
    # It may end in this moment by itself.
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGTERM)
    while run.supervisor(newest.number):
        time.sleep(0.2)
    return True


def lines_here(run: LocalRun, asked: Asked) -> Iterator[RankLine]:
    """What the newest attempt has printed; with `follow`, until it is over."""
    if asked.container:
        raise UsageError(f"--container {asked.container}: a run on this host has no containers.")
    newest = run.read().newest
    if newest is None:
        raise FindingsError([no_run(str(run.directory), run.name)])
    while asked.follow and _is_starting(run, newest):
        time.sleep(_PAUSE_SECONDS)
    path = run.file(newest.number, "log")
    if not path.exists():
        return
    with path.open("rb") as log:
        rest = b""
        lines = log.read().split(b"\n")
        *whole, rest = lines if asked.tail is None else lines[-asked.tail - 1 :]
        while True:
            for raw in whole:
                line = ranked(LogLine("", raw.decode(errors="replace")), 0, 0)
                if asked.rank is None or line.rank == asked.rank:
                    yield line
            was_running = run.supervisor(newest.number) != 0
            piece = log.read()
            if not piece and not (asked.follow and was_running):
                return
            if not piece:
                time.sleep(0.5)
            *whole, rest = (rest + piece).split(b"\n")


def forget_here(run: LocalRun) -> None:
    """Stop a run on this host and remove what was written down of it; its own files stay."""
    with run.held():
        stop_here(run)
        shutil.rmtree(run.directory)
