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
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path
from uuid import uuid4

from seatrial.catalog.catalog import Catalog
from seatrial.checkpoints.engine_setup import setup_of
from seatrial.checkpoints.inventory import State, checkpoints
from seatrial.checkpoints.verdict import Resume, verdict
from seatrial.cluster.pod_logs import LogLine
from seatrial.codes.rendering import RenderCode
from seatrial.codes.runs import RunCode
from seatrial.engine_process.package_path import PACKAGE
from seatrial.engine_process.process import worker_python
from seatrial.engines.registry import ENGINES
from seatrial.errors import FindingsError, UsageError
from seatrial.findings import Finding, Severity, has_errors
from seatrial.monitoring.logs.reading import LONGEST_LINE
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt, own_digest
from seatrial.rendering.commands import PodRendezvous, training_command
from seatrial.rendering.context import Scene, scene_of
from seatrial.rendering.environment import (
    logger_environment,
    recorder_environment,
    retention_environment,
)
from seatrial.rendering.expansion import Option
from seatrial.rendering.names import spec_digest
from seatrial.rendering.resources import grace_seconds
from seatrial.rendering.rules import Place, plan_findings, scene_findings
from seatrial.rendering.spec_config import spec_text
from seatrial.runs.history.logs import Asked, RankLine, ranked, seek_tail
from seatrial.runs.launch.decision import utc
from seatrial.runs.launch.differences import FieldDifference, differences
from seatrial.runs.launch.host_supervisor import HostTask
from seatrial.runs.launch.kubernetes import Confirm, Launched, Wanted
from seatrial.runs.ledger.host import KIND, LAST_ATTEMPT, SUPERVISOR, LocalRun
from seatrial.runs.ledger.ledger import (
    AttemptOutcome,
    AttemptRecord,
    AttemptTakenError,
    End,
    Ledger,
)
from seatrial.runs.status.status import Status, no_run
from seatrial.secrets.redaction import REDACTED, LineRedactor, safe_cut
from seatrial.storage.location import place_at
from seatrial.storage.state_files import (
    DamagedError,
    open_append,
    open_regular,
    read_json,
    write_state,
)

_OF_PODS = (
    *(RenderCode.OPERATOR, RenderCode.OPERATOR_VERSION, RenderCode.DAEMON, RenderCode.IMAGE),
    RenderCode.UNKNOWN_IMAGE,
    *(RenderCode.VOLUME, RenderCode.MOUNT, RenderCode.LOCATION),
)
"""Rules about manifests, images and volumes, of which torchrun on a host has none."""


def refuse_unfit_here(plan: Plan, catalog: Catalog, place: Place) -> None:
    """Raise with every reason why this host cannot run a plan, before anything is touched."""
    found = _of_processes(plan_findings(plan, place))
    found += _of_processes(scene_findings(scene_of(plan, catalog, Attempt()), place))
    if plan.machines.nodes > 1:
        found.append(_several_nodes(plan, place))
    found += _impossible_resume(plan, place)
    if has_errors(found):
        raise FindingsError(found)


def _of_processes(found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.code not in _OF_PODS]


def _impossible_resume(plan: Plan, place: Place) -> list[Finding]:
    """The newest checkpoint of the run, where it cannot be loaded into what the spec has become."""
    if not Path(plan.checkpoint_location).is_dir():
        return []
    saved = checkpoints(place_at(plan.checkpoint_location))
    newest = next((one for one in saved if one.state is State.COMMITTED), None)
    if newest is None or newest.record is None:
        return []
    answer = verdict(newest.record.setup, setup_of(plan))
    if answer.outcome is not Resume.IMPOSSIBLE:
        return []
    why = answer.reasons[0]
    return [
        Finding(
            RunCode.RESUME,
            Severity.ERROR,
            place("checkpoints.location"),
            f"the run cannot go on from its checkpoint of step {newest.step:,}: {why.what} was "
            f"{why.saved} and is {why.wanted} now.",
            why.wanted,
            "Take that back; or give the run another name, with continue_from and, for another "
            "length or learning rate, reset_schedule: true.",
        )
    ]


def _several_nodes(plan: Plan, place: Place) -> Finding:
    nodes, profile = plan.machines.nodes, plan.machines.profile
    return Finding(
        RenderCode.OPERATOR,
        Severity.ERROR,
        place("cluster.nodes"),
        f"the profile {profile} starts torchrun on this host, which is one node: the others would "
        "be waited for in vain.",
        str(nodes),
        "Use cluster.nodes=1 with more processes_per_node, or a profile with Kubernetes.",
    )


LOOPBACK = "127.0.0.1"
START_SECONDS = 30.0
"""How long the supervisor may take to start."""
STARTING = "starting"
"""The state of an attempt that is written down and whose supervisor does not run yet."""
_PAUSE_SECONDS = 0.05
_STOP_PAUSE_SECONDS = 0.1
_PIECE = 1 << 20
_LONGEST_PART = 2 * LONGEST_LINE
"""Bytes of a line that are kept while no place to cut it is found."""
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
    name, ledger = wanted.plan.spec.name, run.read()
    damage = ledger.damage
    newest = ledger.newest
    runs_now = bool(run.supervisors())
    changed = newest is not None and _is_changed(run, wanted, ledger, newest)
    if newest is not None and not changed:
        if runs_now:
            return Launched(name, newest.number, False, "it is running", KIND, 0, findings=damage)
        if newest.outcome is AttemptOutcome.SUCCEEDED:
            why = "it has succeeded"
            return Launched(name, newest.number, False, why, KIND, 0, findings=damage)
    if newest is not None and changed:
        _agree(run, wanted, newest.number, confirm)
    if newest is not None and runs_now:
        stop_here(run)
    if newest is not None and newest.outcome is None:
        outcome = AttemptOutcome.REPLACED if runs_now else AttemptOutcome.GONE
        run.end(newest.number, End(utc(datetime.now(UTC)), outcome))
    _begin(run, wanted, ledger)
    why = f"attempt {newest.number} has ended" if newest else "it is new"
    return Launched(name, ledger.next_number, True, why, KIND, 1, findings=damage)


def _is_changed(run: LocalRun, wanted: Wanted, ledger: Ledger, newest: AttemptRecord) -> bool:
    """True if an attempt was launched with another spec, or with one that cannot be read."""
    if ledger.is_known(newest.number):
        return newest.spec_digest != spec_digest(wanted.plan.spec)
    return bool(_changes(run, wanted, newest.number))


def _changes(run: LocalRun, wanted: Wanted, number: int) -> list[FieldDifference]:
    """What differs between the spec that an attempt was launched with and this one."""
    try:
        before = read_json(run.file(number, "spec"))
    except (FileNotFoundError, DamagedError):
        before = {}
    return differences(before, json.loads(spec_text(wanted.plan.spec)))


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
    changes = _changes(run, wanted, number)
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
    if number > LAST_ATTEMPT:
        raise UsageError(
            f"{run.file(LAST_ATTEMPT, 'record')}: no attempt can follow number {LAST_ATTEMPT:,}. "
            "Delete the files of that number if nobody launched it, or rename the run."
        )
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
    write_state(run.file(number, "spec"), spec_text(plan.spec))
    grace = float(grace_seconds(scene))
    task = HostTask(number, _words(scene, python), _environment(scene), grace)
    file = run.file(number, "task")
    write_state(file, task.to_text())
    words = [sys.executable, "-m", SUPERVISOR, str(file.resolve())]
    with open_append(run.file(number, "log")) as log:
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
    run.end(
        number, End(utc(datetime.now(UTC)), AttemptOutcome.FAILED, "its supervisor did not start")
    )
    raise UsageError(f"the run did not start. See {run.file(number, 'log')}.")


def _own_path() -> str:
    """The search path by which the supervisor finds this Seatrial."""
    return os.pathsep.join(filter(None, (str(PACKAGE.parent), os.environ.get("PYTHONPATH"))))


def _words(scene: Scene, python: str) -> tuple[str, ...]:
    """The command of a pod, with this host's Pythons and a port that is free here.

    The supervisor runs in the Python of this command, and starts torchrun in that of the worker.
    """
    command = training_command(scene, PodRendezvous(0, LOOPBACK), f"{scene.home}/supervisor")
    with socket.create_server((LOOPBACK, 0)) as free:
        here: dict[str, Option] = {"port": free.getsockname()[1], "python": python}
    own = replace(command, program=sys.executable, options={**command.options, **here})
    return own.on_host()


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
    running = run.supervisors()
    # The one that runs, should the newest be one that was written by hand.
    shown = ledger.attempt(max(running, default=0)) or ledger.newest
    if shown is None:
        raise FindingsError([no_run(str(run.directory), run.name)])
    is_running = shown.number in running
    state = "running" if is_running else str(shown.outcome or AttemptOutcome.GONE)
    if not is_running and _is_starting(run, shown):
        state = STARTING
    log = run.file(shown.number, "log")
    return Status(
        run.name,
        f"on this host, log {log}",
        state,
        shown.number,
        shown.submitted,
        shown.submitted if is_running else shown.ended,
        1,
        int(is_running),
        0,
        ledger.damage,
        ledger.attempts,
    )


def _is_starting(run: LocalRun, attempt: AttemptRecord) -> bool:
    """Whether an attempt is written down and its supervisor is about to start."""
    if attempt.outcome is not None or not attempt.submitted:
        return False
    with suppress(OSError):
        # Whoever holds it has written its number there.
        if os.stat(run.file(attempt.number, "lock")).st_size > 0:
            return False
    began = datetime.fromisoformat(attempt.submitted)
    is_new = 0 <= (datetime.now(UTC) - began).total_seconds() < START_SECONDS
    return is_new and not run.supervisor(attempt.number)


def stop_here(run: LocalRun) -> bool:
    """Ask the processes to save and end, and wait for it; whether there was something to stop.

    Finds them whatever has become of the run's files. Raises UsageError if a supervisor is alive
    that this host does not show.
    """
    newest = run.read().newest
    while newest is not None and _is_starting(run, newest):
        time.sleep(_PAUSE_SECONDS)
    running = run.supervisors(thorough=True)
    for process in running.values():
        # It may end in this moment by itself.
        with suppress(ProcessLookupError):
            if process > 0:
                os.kill(process, signal.SIGTERM)
    for number, process in running.items():
        while run.is_supervisor(process, number):
            time.sleep(_STOP_PAUSE_SECONDS)
    unseen = [number for number, process in running.items() if process <= 0]
    if unseen:
        raise UsageError(
            f"attempt {unseen[0]} of {run.name} is supervised by a process that cannot be seen "
            "from here: it is on another host, in another container or another user's. Run "
            "seatrial stop there."
        )
    return bool(running)


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
    try:
        opened = open_regular(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    redact = LineRedactor()
    with opened as log:
        if asked.tail is not None:
            seek_tail(log, asked.tail)
        for raw in _raw_lines(log, lambda: asked.follow and run.supervisor(newest.number) != 0):
            line = ranked(LogLine("", redact(raw.decode(errors="replace"))), 0, 0)
            if asked.rank is None or line.rank == asked.rank:
                yield line


def _raw_lines(log: BufferedReader, is_growing: Callable[[], bool]) -> Iterator[bytes]:
    """The lines of a log, piece by piece; while it grows, those to come as well.

    A line that is too long comes in parts, cut where redaction finds the same in the parts as in
    the whole. Of one that has no such place, nothing is shown.
    """
    rest, dropping = b"", False
    while True:
        # Asked before reading, so that what is written last is not missed.
        goes_on = is_growing()
        piece = log.read1(_PIECE)
        *whole, rest = (rest + piece).split(b"\n")
        if dropping and whole:
            dropping, whole = False, whole[1:]
        yield from whole
        if dropping:
            rest = b""
        while len(rest) > LONGEST_LINE:
            cut = _cut_of(rest[:_LONGEST_PART])
            if cut:
                yield rest[:cut]
                rest = rest[cut:]
            elif len(rest) < _LONGEST_PART:
                break
            else:
                yield REDACTED.encode()
                rest, dropping = b"", True
        if rest and not piece and not goes_on:
            yield rest
            rest = b""
        if not piece:
            if not goes_on:
                return
            time.sleep(_PAUSE_SECONDS)


def _cut_of(line: bytes) -> int:
    """Return how many bytes of a line can be shown before the rest is known; 0 if none can."""
    text = line.decode(errors="surrogateescape")
    return len(text[: safe_cut(text)].encode(errors="surrogateescape"))


def forget_here(run: LocalRun) -> None:
    """Stop a run on this host and remove what was written down of it; its own files stay."""
    with run.held():
        stop_here(run)
        try:
            shutil.rmtree(run.directory)
        except OSError as error:
            raise UsageError(f"{error.filename} cannot be deleted: {error.strerror}.") from None
