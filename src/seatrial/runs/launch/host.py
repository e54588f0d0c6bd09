# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Launch on this host without Kubernetes: torchrun in the background."""

import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from seatrial.catalog.catalog import Catalog
from seatrial.checkpoints.by_engine import setup_of
from seatrial.checkpoints.inventory import State, checkpoints
from seatrial.checkpoints.verdict import Resume, verdict
from seatrial.checks.probes.host import look_at_host
from seatrial.checks.rules.host import host_findings, host_plan_findings
from seatrial.codes.runs import RunCode
from seatrial.engine_process.package_path import PACKAGE
from seatrial.engine_process.process import worker_python
from seatrial.engines.registry import ENGINES
from seatrial.errors import FindingsError, UsageError
from seatrial.findings import Finding, Severity, has_errors
from seatrial.monitoring.processes import MARK
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt, own_digest
from seatrial.rendering.commands import PodRendezvous, training_command
from seatrial.rendering.context import Scene, scene_of
from seatrial.rendering.environment import host_environment
from seatrial.rendering.expansion import Command, Option
from seatrial.rendering.host_container import (
    CERTIFICATES,
    END_WITH_STDIN,
    FORWARDED,
    Bind,
    ContainerHost,
    container_argv,
    container_environment,
    install_argv,
    run_binds,
)
from seatrial.rendering.names import spec_digest
from seatrial.rendering.resources import grace_seconds
from seatrial.rendering.rules import Place
from seatrial.rendering.spec_config import spec_text
from seatrial.runs.launch.decision import ON_HOST, ActiveAttempt, FoundAttempts
from seatrial.runs.launch.differences import FieldDifference, differences
from seatrial.runs.launch.host_supervisor import HostTask
from seatrial.runs.launch.launcher import TRIES, Submitted, Wanted
from seatrial.runs.ledger.host import KIND, START_SECONDS, SUPERVISOR, LocalRun
from seatrial.runs.ledger.ledger import AttemptOutcome, AttemptRecord, End, utc
from seatrial.runs.status.observe import JobState
from seatrial.runs.stop import stop_here
from seatrial.storage.location import place_at
from seatrial.storage.state_files import DamagedError, open_append, read_json, write_state

LOOPBACK = "127.0.0.1"
IMAGE_LOCK = "image-lock.txt"
"""The file in an engine's folder with the packages that its base images lack."""


def _refuse_plan(plan: Plan, catalog: Catalog, place: Place) -> None:
    """Raise with every reason why this host cannot run a plan."""
    found = host_plan_findings(plan, catalog, place)
    found += _impossible_resume(plan, place)
    found += host_findings(plan, place, look_at_host(plan))
    if has_errors(found):
        raise FindingsError(found)


def _impossible_resume(plan: Plan, place: Place) -> list[Finding]:
    """Report the run's newest checkpoint if the spec can no longer load it."""
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
            f"the run cannot resume from its checkpoint at step {newest.step:,}: {why.what} was "
            f"{why.saved} and is now {why.wanted}.",
            why.wanted,
            "Revert this change. Or rename the run and set continue_from; to change the length or "
            "the learning rate, also set reset_schedule: true.",
        )
    ]


@dataclass(frozen=True, slots=True)
class HostBackend:
    """Launches on this host."""

    run: LocalRun
    namespace: str = ""

    @property
    def now(self) -> datetime:
        return datetime.now(UTC)

    def refuse_unfit(self, wanted: Wanted) -> None:
        """Reject plans that need pods or several nodes, or that cannot resume."""
        if wanted.readmitted:
            raise UsageError("a run on this host excludes no nodes, so --readmit does not apply.")
        _refuse_plan(wanted.plan, wanted.catalog, wanted.place)

    @contextmanager
    def hold(self, wanted: Wanted) -> Iterator[None]:
        """Lock out other launches on this host. Other hosts on a shared disk are not locked out."""
        _make_home(wanted)
        with self.run.held():
            yield

    def find(self, wanted: Wanted) -> FoundAttempts:
        """Read the ledger, and look for a running supervisor."""
        ledger = self.run.read()
        newest, changed, active = ledger.newest, False, None
        if newest is not None:
            # If the record is damaged, the spec itself may still be readable.
            if ledger.is_known(newest.number):
                changed = newest.spec_digest != spec_digest(wanted.plan.spec)
            else:
                changed = bool(self.spec_changes(wanted.plan))
            if self.run.supervisors():
                active = ActiveAttempt(newest.number, JobState.RUNNING)
        return FoundAttempts(
            ledger=ledger, is_changed=changed, phrases=ON_HOST, kind=KIND, active=active
        )

    def spec_changes(self, plan: Plan) -> list[FieldDifference]:
        """Compare the spec of the newest attempt with this one, field by field."""
        newest = max(self.run.numbers(), default=0)
        try:
            before = read_json(self.run.file(newest, "spec"))
        except (FileNotFoundError, DamagedError):
            before = {}
        return differences(before, json.loads(spec_text(plan.spec)))

    def end_previous(self, found: FoundAttempts, end: End | None) -> None:
        """Let the previous attempt save and exit, and record its end."""
        if found.active is not None:
            stop_here(self.run)
        if end is not None and found.ledger.newest is not None:
            self.run.end(found.ledger.newest.number, end)

    def submit(self, wanted: Wanted, record: AttemptRecord, *, is_begun: bool) -> Submitted:
        """Record the attempt and start its supervisor."""
        run, number, plan = self.run, record.number, wanted.plan
        scene = _scene(wanted, number, record.submission)
        task = _container_task(scene) if plan.spec.cluster.container else _process_task(scene)
        if not is_begun:
            run.add(record)
        write_state(run.file(number, "spec"), spec_text(plan.spec))
        write_state(run.file(number, "task"), task.to_text())
        _start(run, number)
        return Submitted(KIND, 1)

    def outrun(self, run: str) -> UsageError:
        """Return the error after the last try."""
        return UsageError(
            f"other launches of {run} interfered {TRIES} times in a row. "
            "Check seatrial status, then launch again."
        )


def _make_home(wanted: Wanted) -> None:
    """Create the directory for the run's files before anything else is written."""
    home = _scene(wanted, 1).home
    try:
        Path(home).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot create {home} for the run's files: {error.strerror}. "
            "Use a directory that you can write to: cluster.storage.mount=DIR."
        ) from None


def _scene(wanted: Wanted, number: int, submission: str = "") -> Scene:
    attempt = Attempt(number, (), own_digest(), submission)
    return scene_of(wanted.plan, wanted.catalog, attempt)


def _start(run: LocalRun, number: int) -> None:
    """Start the supervisor of an attempt, and wait until it holds its lock or has exited."""
    words = [sys.executable, "-m", SUPERVISOR, str(run.file(number, "task").resolve())]
    with open_append(run.file(number, "log")) as log:
        # The supervisor forks into the background, so this returns.
        subprocess.run(  # noqa: S603  (our own argv, no shell)
            words,
            env=os.environ | {"PYTHONPATH": _own_path()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            check=False,
        )
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if run.supervisor(number) > 0 or run.file(number, "end").exists():
            return
        time.sleep(0.05)
    run.end(
        number, End(utc(datetime.now(UTC)), AttemptOutcome.FAILED, "its supervisor did not start")
    )
    raise UsageError(f"the run did not start. Read the log: {run.file(number, 'log')}.")


def _own_path() -> str:
    """Return the PYTHONPATH with which the supervisor finds this Seatrial."""
    return os.pathsep.join(filter(None, (str(PACKAGE.parent), os.environ.get("PYTHONPATH"))))


def _process_task(scene: Scene) -> HostTask:
    """Return a pod's command with this host's Pythons.

    The supervisor uses the Python of this process, and starts torchrun with the worker's Python.
    """
    python = worker_python(ENGINES[scene.plan.spec.engine.name])
    command = _supervisor(scene, {"python": python})
    own = replace(command, program=sys.executable)
    return HostTask(
        scene.attempt.number, own.on_host(), host_environment(scene), float(grace_seconds(scene))
    )


def _container_task(scene: Scene) -> HostTask:
    """Return a pod's command in a container, after the engine was installed if the image lacks it.

    Docker and podman start containers that outlive the command that started them, so the
    supervisor ends with its standard input.
    """
    host = _container_host(scene)
    command = _supervisor(scene, {})
    first = {END_WITH_STDIN.removeprefix("--"): True}
    command = replace(command, options={**first, **command.options})
    variables = host_environment(scene) | container_environment()
    return HostTask(
        scene.attempt.number,
        container_argv(scene, command, variables, host),
        {},
        float(grace_seconds(scene)),
        install_argv(scene, _image_lock(scene), host) if host.site else (),
        str(host.site or ""),
        in_container=True,
    )


def _supervisor(scene: Scene, options: dict[str, Option]) -> Command:
    """Return the supervisor's command, with a free port of this host."""
    command = training_command(scene, PodRendezvous(0, LOOPBACK), f"{scene.home}/supervisor")
    with socket.create_server((LOOPBACK, 0)) as free:
        here: dict[str, Option] = {"port": free.getsockname()[1]}
    return replace(command, options={**command.options, **here, **options})


def _container_host(scene: Scene) -> ContainerHost:
    """Create the directories that the container mounts, as the user who launches the run."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    cache = Path(home) / "seatrial" / "container"
    site = None
    if not scene.image.brings_worker:
        made_of = scene.image.reference + _image_lock(scene).read_text("utf-8")
        site = cache / f"site-{sha256(made_of.encode()).hexdigest()[:12]}"
    # A directory that does not exist would be created by the runtime, for root.
    for path in (cache, site, *(Path(bind.source) for bind in run_binds(scene.plan))):
        if path is not None:
            path.mkdir(parents=True, exist_ok=True)
    set_here = [name for name in FORWARDED if os.environ.get(name)]
    files = {os.environ[name] for name in set_here if name in CERTIFICATES}
    certificates = tuple(Bind(file, file) for file in sorted(files) if Path(file).is_file())
    return ContainerHost(
        PACKAGE,
        cache,
        site,
        os.getuid(),
        os.getgid(),
        tuple(_limits()),
        (*set_here, MARK),
        certificates,
    )


def _limits() -> Iterator[str]:
    """Yield the resource limits of this process; -1 is no limit."""
    for name in ("memlock", "nofile", "stack"):
        soft, hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))
        yield f"{name}={soft}:{hard}"


def _image_lock(scene: Scene) -> Path:
    """Return the lock file of the packages that base images of the engine lack."""
    engine = ENGINES[scene.plan.spec.engine.name]
    return PACKAGE / "engines" / engine.name.replace("-", "_") / IMAGE_LOCK
