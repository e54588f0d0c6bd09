# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The way of a run from its corpus to its report: the commands, in order, and how far it has come.

Each step is a command that anybody can call alone; a voyage only calls them in order, stops where
one needs a person, and remembers which are done, as long as the spec stays the same.
"""

import errno
import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from seatrial.engine_process.process import worker_python
from seatrial.engine_process.weights import why_not_exported
from seatrial.engines.registry import ENGINES
from seatrial.errors import MissingExtraError, UsageError
from seatrial.hashing import digest
from seatrial.planning.plan import Plan
from seatrial.reports.run_page.page import plotting_library
from seatrial.runs.launch.connect import require_cluster_extra
from seatrial.runs.ledger.host import lock_within
from seatrial.sdk.data import require_data_extra
from seatrial.spec.cluster import Operator
from seatrial.storage.state_files import (
    DamagedError,
    make_directory,
    open_append,
    read_json,
    write_state,
)

KEPT = "voyage.json"
COMPARED_PARAMETERS = 1_000_000_000
"""Models up to this size are compared: 8 GB of memory, and a few minutes of one CPU."""
COMPARED_BYTES = 16
"""Memory of this host for each parameter: twice what the comparison takes."""
LOCK = "voyage.lock"
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
"""What a file system answers that knows no locks."""
_LONGEST_HOLDER = 300
"""Bytes that say who holds the lock: a process and a host."""
RENAMING = ("name=", "cluster=", "cluster.namespace=")
"""How overrides begin that make another run of a spec."""


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """One command of a voyage."""

    name: str
    """How it is called here."""
    says: str
    """What it does, in a line."""
    words: tuple[str, ...]
    """The words after `seatrial`."""


def steps(file: Path, overrides: tuple[str, ...], plan: Plan) -> tuple[PipelineStep, ...]:
    """The steps of a run, in order; those that do not concern it are left out."""
    given, run = (str(file), *overrides), _run(file, overrides, plan)
    here = is_here(plan)
    place = "here" if here else "in its cluster"
    on = where(plan)
    look = "--data" if here else "--cluster"
    found = [
        PipelineStep("rules", "every rule that needs nothing but the spec", ("check", *given)),
        PipelineStep(
            "data", f"the corpus becomes tokens, {place}", ("data", "prepare", *given, *on)
        ),
        PipelineStep("plan", "the layout, its memory, time and cost", ("plan", *given)),
        PipelineStep("check", f"the rules again, with what lies {place}", ("check", *given, look)),
        PipelineStep(
            "rehearse", "a shrunk twin with the real engine, and drills", ("rehearse", *given)
        ),
        PipelineStep("launch", f"the run itself, {place}", ("launch", *given)),
        PipelineStep("wait", "until it is over", ("wait", *run)),
        PipelineStep(
            "verify", "its checkpoints, every byte", ("checkpoints", "verify", *given, *on)
        ),
        PipelineStep("export", "the weights, for transformers", (*_export(given, plan, here), *on)),
        PipelineStep("report", "what it was like, on one page", ("report", *run)),
    ]
    left_out = set() if _is_raw(plan) else {"data"}
    left_out |= set() if _is_exported(plan) else {"export"}
    return tuple(step for step in found if step.name not in left_out)


def _run(file: Path, overrides: tuple[str, ...], plan: Plan) -> tuple[str, ...]:
    """How the run is called where no overrides are taken: by its spec, unless they rename it."""
    if not any(word.startswith(RENAMING) for word in overrides):
        return (str(file),)
    cluster = () if is_here(plan) else ("--namespace", plan.spec.cluster.namespace)
    return (plan.spec.name, *cluster)


def is_here(plan: Plan) -> bool:
    """Whether the run takes place on this host, not in a cluster."""
    return plan.machines.operator is Operator.TORCHRUN


def where(plan: Plan) -> tuple[str, ...]:
    """The words by which a command goes to the volume of a run; none where that is here."""
    return () if is_here(plan) else ("--on", "kubernetes")


def _export(given: tuple[str, ...], plan: Plan, here: bool) -> tuple[str, ...]:
    name, volume = plan.spec.name, plan.spec.cluster.storage.mount.rstrip("/")
    to = f"{name}-weights" if here else f"{volume}/{name}/weights"
    compare = ("--compare",) if _is_compared(plan, here) else ()
    return ("checkpoints", "export", *given, "--to", to, *compare)


def _is_compared(plan: Plan, here: bool) -> bool:
    """Whether the export goes through the gate, which computes with the whole model on one CPU.

    Here the rehearsal has shown that it can; images for GPUs were never tried without one.
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
    """Whether there is text to be prepared."""
    return any(source.from_ is not None for source in plan.spec.data.sources or ())


def _is_exported(plan: Plan) -> bool:
    """Whether transformers has a class for such a model."""
    engine = ENGINES[plan.spec.engine.name]
    return not why_not_exported(engine, engine.arguments(plan))


@contextmanager
def alone(directory: Path, name: str) -> Iterator[int]:
    """Be the only one who walks a run: the open lock, which goes with the last who holds it."""
    try:
        make_directory(directory)
        file = open_append(directory / LOCK)
    except OSError as error:
        raise UsageError(
            f"{error.filename or directory} cannot be written: {error.strerror}. How far a walk "
            "is, is kept there: put the spec into a directory of yours."
        ) from None
    with file as lock:
        if not _is_ours(lock.fileno()):
            holder = os.pread(lock.fileno(), _LONGEST_HOLDER, 0).decode(errors="replace").strip()
            raise UsageError(
                f"{holder or 'another process'} walks {name} already, by "
                "`seatrial run`. Wait until it has ended, or end it; --show tells how far it is."
            )
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {platform.node()}\n".encode())
        yield lock.fileno()


def _is_ours(lock: int) -> bool:
    """Whether a lock is ours now; where there are no locks, nobody else can hold one."""
    try:
        return lock_within(lock, 0)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return True
        raise


class Logbook:
    """Which steps of a voyage are done, kept in a file."""

    def __init__(self, file: Path, spec: object) -> None:
        """Read what is kept; what was done for another spec counts for nothing."""
        self._file = file
        self._spec = digest(spec)
        self._done: list[str] = []
        try:
            kept = read_json(file)
            if kept["spec"] == self._spec:
                self._done = [str(name) for name in kept["done"]]
        except (OSError, DamagedError, KeyError, TypeError):
            # Nothing is kept, or nothing that can be read: all is done again, which harms nothing.
            return

    def has(self, name: str) -> bool:
        """Whether a step is done."""
        return name in self._done

    def note(self, name: str) -> None:
        """A step is done."""
        self._done.append(name)
        self._write()

    def forget_from(self, names: tuple[str, ...]) -> None:
        """These are to be done again."""
        self._done = [name for name in self._done if name not in names]
        self._write()

    def _write(self) -> None:
        text = json.dumps({"spec": self._spec, "done": self._done}, indent=2) + "\n"
        try:
            write_state(self._file, text)
        except OSError as error:
            raise UsageError(
                f"{self._file} cannot be written: {error.strerror}. The steps that are done are "
                "kept there: make room for it, or remove what is there."
            ) from None


def require_all(ahead: Sequence[PipelineStep], plan: Plan) -> None:
    """Refuse to begin where a step ahead needs what is not installed; says so for all of them."""
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
            "not every step has what it needs, so none was begun.\n"
            + "".join(f"{', '.join(names)}: {what}\n" for what, names in lacking.items())
            + _at_once(tuple(extras))
            + "--until STEP walks as far as a step."
        )


def _at_once(extras: tuple[str, ...]) -> str:
    """One command for several extras, so that nobody has to install thrice."""
    if len(extras) < 2:
        return ""
    return f"All at once, in a checkout of Seatrial: pip install '.[{','.join(extras)}]'\n"


def _asked(plan: Plan) -> dict[str, Callable[[], object]]:
    """For each step that needs an extra, what raises without it."""

    def engine() -> None:
        worker_python(ENGINES[plan.spec.engine.name])

    here = is_here(plan)
    place = require_data_extra if here else require_cluster_extra
    return {
        "data": place,
        "check": place,
        "rehearse": engine,
        "launch": engine if here else require_cluster_extra,
        "verify": _nothing if here else require_cluster_extra,
        "export": engine if here else require_cluster_extra,
        "report": plotting_library,
    }


def _nothing() -> None:
    """A step that needs no extra."""
