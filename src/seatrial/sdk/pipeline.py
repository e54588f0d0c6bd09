# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The pipeline of a run, from corpus to report: its commands in order, and which are done.

Each step is a command that you can also run yourself. The pipeline calls them in order, stops at
the first one that fails or needs input, and records the finished steps for as long as the spec is
unchanged.
"""

import errno
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from seatrial.catalog.catalog import default_catalog
from seatrial.engine_process.process import worker_python
from seatrial.engine_process.weights import why_not_exported
from seatrial.engines.registry import ENGINES
from seatrial.errors import ExitCode, MissingExtraError, UsageError
from seatrial.hashing import digest
from seatrial.planning.plan import Plan
from seatrial.reports.run_page.page import plotting_library
from seatrial.reports.terminal import NO_NEXT
from seatrial.runs.launch.connect import require_cluster_extra
from seatrial.runs.ledger.host import lock_within
from seatrial.runs.namespace import Tell
from seatrial.sdk.data import require_data_extra
from seatrial.sdk.plan import Overrides, PathOrText, load_plan, override_texts
from seatrial.spec.cluster import Operator
from seatrial.storage.state_files import (
    DamagedError,
    make_directory,
    open_append,
    read_json,
    write_state,
)

KEPT = "pipeline.json"
_OLD_KEPT = "voyage.json"
"""The former name of `KEPT`. It is read if the new file is missing."""
COMPARED_PARAMETERS = 1_000_000_000
"""The largest model that export compares: 8 GB of memory, and a few minutes on one CPU."""
COMPARED_BYTES = 16
"""Host memory required per parameter: twice the memory that the comparison uses."""
LOCK = "pipeline.lock"
_OLD_LOCK = "voyage.lock"
"""The former name of `LOCK`. It is used if it exists and the new file is missing."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
"""The errors of a file system without lock support."""
_LONGEST_HOLDER = 300
"""The maximum length in bytes of the lock file's text: a process and a host."""
RENAMING = ("name=", "cluster=", "cluster.namespace=")
"""Prefixes of overrides that turn a spec into a different run."""


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """One command of the pipeline."""

    name: str
    says: str
    """One line that describes the step."""
    words: tuple[str, ...]
    """The arguments after `seatrial`."""


def steps(file: Path, overrides: tuple[str, ...], plan: Plan) -> tuple[PipelineStep, ...]:
    """Return the steps of a run in order, without the ones that it does not need."""
    given, run = (str(file), *overrides), _run(file, overrides, plan)
    here = is_here(plan)
    place = "on this host" if here else "in the cluster"
    on = where(plan)
    look = "--data" if here else "--cluster"
    found = [
        PipelineStep("rules", "apply every rule that needs only the spec", ("check", *given)),
        # Preparing the data takes hours, and the API server answers in seconds.
        PipelineStep(
            "cluster",
            "check the cluster before the data is prepared there",
            ("check", *given, "--cluster"),
        ),
        PipelineStep("data", f"tokenize the corpus {place}", ("data", "prepare", *given, *on)),
        PipelineStep("plan", "show the layout, memory, time and cost", ("plan", *given)),
        PipelineStep(
            "check", f"apply the rules again, with {look[2:]} checks", ("check", *given, look)
        ),
        PipelineStep("rehearse", "train a shrunk twin with the real engine", ("rehearse", *given)),
        PipelineStep("launch", f"start the run {place}", ("launch", *given)),
        PipelineStep("wait", "wait until the run ends", ("wait", *run)),
        PipelineStep(
            "verify", "verify every byte of its checkpoints", ("checkpoints", "verify", *given, *on)
        ),
        PipelineStep(
            "export", "export the weights for transformers", (*_export(given, plan, here), *on)
        ),
        PipelineStep("report", "write the report page", ("report", *run)),
    ]
    left_out = set() if _is_raw(plan) else {"data", "cluster"}
    left_out |= {"cluster"} if here else set()
    left_out |= set() if _is_exported(plan) else {"export"}
    return tuple(step for step in found if step.name not in left_out)


def _run(file: Path, overrides: tuple[str, ...], plan: Plan) -> tuple[str, ...]:
    """Return the arguments for commands without overrides: the spec, or the name if overridden."""
    if not any(word.startswith(RENAMING) for word in overrides):
        return (str(file),)
    cluster = () if is_here(plan) else ("--namespace", plan.spec.cluster.namespace)
    return (plan.spec.name, *cluster)


def is_here(plan: Plan) -> bool:
    """True if the run executes on this host, not in a cluster."""
    return plan.machines.operator is Operator.TORCHRUN


def where(plan: Plan) -> tuple[str, ...]:
    """Return the options that make a command use the run's volume. Empty for a run on this host."""
    return () if is_here(plan) else ("--on", "kubernetes")


def _export(given: tuple[str, ...], plan: Plan, here: bool) -> tuple[str, ...]:
    name, volume = plan.spec.name, plan.spec.cluster.storage.mount.rstrip("/")
    to = f"{name}-weights" if here else f"{volume}/{name}/weights"
    compare = ("--compare",) if _is_compared(plan, here) else ()
    return ("checkpoints", "export", *given, "--to", to, *compare)


def _is_compared(plan: Plan, here: bool) -> bool:
    """True if the export compares logits, which needs the whole model in memory on one CPU.

    On this host, the rehearsal has shown that it works. GPU images are untested without a GPU.
    """
    is_local = "://" not in plan.checkpoint_location
    can = not ENGINES[plan.spec.engine.name].no_rehearsal(plan)
    on_cpu = here or not plan.machines.accelerator
    most = COMPARED_PARAMETERS
    if here:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        most = min(most, memory // COMPARED_BYTES)
    return can and is_local and on_cpu and plan.model.parameters <= most


def _is_raw(plan: Plan) -> bool:
    """True if the run has raw text to prepare."""
    return any(source.from_ is not None for source in plan.spec.data.sources or ())


def _is_exported(plan: Plan) -> bool:
    """True if transformers has a class for this model."""
    engine = ENGINES[plan.spec.engine.name]
    return not why_not_exported(engine, engine.arguments(plan))


@contextmanager
def alone(directory: Path, name: str) -> Iterator[int]:
    """Hold the lock of a run's pipeline, and yield its descriptor for child processes to inherit.

    The lock is released when the last process that holds the descriptor exits.
    """
    try:
        make_directory(directory)
        file = open_append(_lock_file(directory))
    except OSError as error:
        raise UsageError(
            f"cannot write {error.filename or directory}: {error.strerror}. The pipeline keeps its "
            "state there: move the spec to a directory that you can write to."
        ) from None
    with file as lock:
        if not _is_ours(lock.fileno()):
            holder = os.pread(lock.fileno(), _LONGEST_HOLDER, 0).decode(errors="replace").strip()
            raise UsageError(
                f"{holder or 'another process'} is already running {name} with `seatrial run`. "
                "Wait for it, or stop it. To see its progress, use --show."
            )
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {platform.node()}\n".encode())
        yield lock.fileno()


def _lock_file(directory: Path) -> Path:
    """Return the lock file; the old name if only that exists, as an old process may hold it."""
    old, new = directory / _OLD_LOCK, directory / LOCK
    return old if old.exists() and not new.exists() else new


def _is_ours(lock: int) -> bool:
    """Try to acquire a lock. True on file systems without locks, where nobody can hold one."""
    try:
        return lock_within(lock, 0)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return True
        raise


class Logbook:
    """The finished steps of a pipeline, stored in a file."""

    def __init__(self, file: Path, spec: object) -> None:
        """Read the stored steps. Steps of a different spec do not count."""
        self._file = file
        self._spec = digest(spec)
        self._done: list[str] = []
        try:
            old = file.with_name(_OLD_KEPT)
            kept = read_json(old if old.exists() and not file.exists() else file)
            if kept["spec"] == self._spec:
                self._done = [str(name) for name in kept["done"]]
        except (OSError, DamagedError, KeyError, TypeError):
            # The file is missing or damaged: run every step again, which is safe.
            return

    def has(self, name: str) -> bool:
        return name in self._done

    def note(self, name: str) -> None:
        """Record a finished step."""
        self._done.append(name)
        self._write()

    def forget_from(self, names: tuple[str, ...]) -> None:
        """Mark steps as not done, so that they run again."""
        self._done = [name for name in self._done if name not in names]
        self._write()

    def _write(self) -> None:
        text = json.dumps({"spec": self._spec, "done": self._done}, indent=2) + "\n"
        try:
            write_state(self._file, text)
        except OSError as error:
            raise UsageError(
                f"cannot write {self._file}: {error.strerror}. The pipeline records finished steps "
                "there: free some space, or remove the file."
            ) from None


def require_all(ahead: Sequence[PipelineStep], plan: Plan) -> None:
    """Refuse to start if a later step needs a missing extra. The error lists all of them."""
    asked = _asked(plan)
    lacking: dict[str, list[str]] = {}
    extras: dict[str, None] = {}
    for step in ahead:
        try:
            asked.get(step.name, _nothing)()
        except MissingExtraError as error:
            lacking.setdefault(str(error), []).append(step.name)
            if error.extra:
                extras[error.extra] = None
    if lacking:
        raise MissingExtraError(
            "some steps need software that is not installed, so no step was started.\n"
            + "".join(f"{', '.join(names)}: {what}\n" for what, names in lacking.items())
            + _install_all(tuple(extras))
            + "To stop before these steps, use --until STEP."
        )


def _install_all(extras: tuple[str, ...]) -> str:
    """Return one command that installs several extras."""
    if len(extras) < 2:
        return ""
    return f"To install all, in a Seatrial checkout, run: pip install '.[{','.join(extras)}]'\n"


def _asked(plan: Plan) -> dict[str, Callable[[], object]]:
    """Map each step that needs an extra to a function that raises if it is missing."""

    def engine() -> None:
        worker_python(ENGINES[plan.spec.engine.name])

    here = is_here(plan)
    place = require_data_extra if here else require_cluster_extra
    return {
        "cluster": require_cluster_extra,
        "data": place,
        "check": place,
        "rehearse": engine,
        "launch": engine if here else require_cluster_extra,
        "verify": _nothing if here else require_cluster_extra,
        "export": engine if here else require_cluster_extra,
        "report": plotting_library,
    }


def _nothing() -> None:
    """The requirement of a step that needs no extra."""


@dataclass(frozen=True, slots=True)
class PipelineState:
    """The steps of a run's pipeline, and how far it got."""

    plan: Plan
    steps: tuple[PipelineStep, ...]
    done: tuple[str, ...] = ()
    """The names of the finished steps."""
    failed: PipelineStep | None = None
    """The step that failed or needs input. None if all requested steps succeeded."""
    exit_code: int = 0
    """The exit code of the failed step."""

    def place(self, step: PipelineStep) -> str:
        """Return the position of a step, such as `3 of 9`."""
        return f"{self.steps.index(step) + 1} of {len(self.steps)}"


def pipeline(
    path: PathOrText, overrides: Overrides = (), *, tell: Tell | None = None
) -> PipelineState:
    """Return the steps of a run's pipeline and which are done, without running any."""
    found = _pipeline(path, overrides, tell)
    return found.state(Logbook(found.directory / KEPT, found.spec))


def run_pipeline(
    path: PathOrText,
    overrides: Overrides = (),
    *,
    start: str = "",
    until: str = "",
    before_step: Callable[[PipelineStep, PipelineState], None] | None = None,
    tell: Tell | None = None,
) -> PipelineState:
    """Take a run through every step, from the corpus to the report.

    Each step runs as a `seatrial` command in a child process, which prints to this process's
    streams. Finished steps are skipped, unless the spec changed. Stops at the first failed step.

    Args:
        path: The spec.
        overrides: Fields to override.
        start: Repeat this step and all later ones.
        until: Stop after this step.
        before_step: Called before each step.
        tell: Receives messages.
    """
    found = _pipeline(path, overrides, tell)
    names = [step.name for step in found.steps]
    for asked in filter(None, (start, until)):
        if asked not in names:
            raise UsageError(f"unknown step {asked}. Use one of: {', '.join(names)}.")
    with alone(found.directory, found.plan.spec.name) as lock:
        book = Logbook(found.directory / KEPT, found.spec)
        if start:
            book.forget_from(tuple(names[names.index(start) :]))
        last = names.index(until) if until else len(names) - 1
        ahead = [step for step in found.steps[: last + 1] if not book.has(step.name)]
        require_all(ahead, found.plan)
        for step in ahead:
            if before_step is not None:
                before_step(step, found.state(book))
            code = _call(step, lock)
            if code:
                if step.name == "wait" and code == ExitCode.RUN_FAILED:
                    # Waiting again for a finished run would fail again: launch it first.
                    book.forget_from(("launch",))
                return replace(found.state(book), failed=step, exit_code=code)
            book.note(step.name)
        return found.state(book)


@dataclass(frozen=True, slots=True)
class _Pipeline:
    """What a pipeline works on."""

    plan: Plan
    steps: tuple[PipelineStep, ...]
    directory: Path
    """The directory of the run's state."""
    spec: object
    """The spec as plain data: finished steps count while it is unchanged."""

    def state(self, book: Logbook) -> PipelineState:
        done = tuple(step.name for step in self.steps if book.has(step.name))
        return PipelineState(self.plan, self.steps, done)


def _pipeline(path: PathOrText, overrides: Overrides, tell: Tell | None) -> _Pipeline:
    file, given = Path(path), override_texts(overrides)
    loaded, plan = load_plan(file, given, default_catalog(), tell=tell)
    directory = file.parent / ".seatrial" / plan.spec.name
    spec = loaded.spec.model_dump(mode="json")
    return _Pipeline(plan, steps(file, given, plan), directory, spec)


def _call(step: PipelineStep, lock: int) -> int:
    """Run the command of a step. Return its exit code, as a shell would."""
    with subprocess.Popen(  # noqa: S603  (our own argv, no shell)
        [sys.executable, "-m", "seatrial", NO_NEXT, *step.words],
        # A step may outlive a killed pipeline; no second pipeline may start while it runs.
        pass_fds=(lock,),
    ) as child:
        try:
            code = child.wait()
        except KeyboardInterrupt:
            # The step got the same Ctrl-C: let it stop its processes and print what it keeps.
            child.wait()
            raise
    return code if code >= 0 else 128 - code
