# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Rehearse a run: train a small twin with the real engine on this host's CPU."""

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from seatrial.catalog.catalog import default_catalog
from seatrial.engine_process.process import worker_python
from seatrial.engines.registry import ENGINES
from seatrial.errors import UsageError
from seatrial.planning.plan import Plan
from seatrial.rehearsal.drills import (
    USUAL_DRILLS,
    WITHOUT_TWIN,
    Announce,
    DrillName,
    Result,
)
from seatrial.rehearsal.rehearse import (
    RehearsalReport,
    RehearsalRequest,
    make_twins,
    report_of,
    run_drills,
    write_report,
)
from seatrial.rehearsal.twin import Twin
from seatrial.runs.namespace import Tell
from seatrial.sdk.plan import Overrides, PathOrText, load_plan


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """The result of a rehearsal."""

    plan: Plan
    """The plan that was rehearsed."""
    twins: tuple[Twin, ...]
    """The small twins. Empty if only the arguments were checked."""
    report: RehearsalReport
    """The result of every drill."""
    file: Path
    """The report's file."""


@dataclass(frozen=True, slots=True)
class RehearsalWatch:
    """Callbacks for the progress of a rehearsal."""

    tell: Tell | None = None
    """Receives the reason why a stored plan was replaced."""
    began: Callable[[Plan, Sequence[Twin]], None] | None = None
    """Receives the twins before the first drill."""
    announce: Announce | None = None
    """Receives the progress of a drill."""
    drilled: Callable[[Result], None] | None = None
    """Receives the result of each drill."""


def rehearse(
    path: PathOrText,
    overrides: Overrides = (),
    *,
    drills: Sequence[DrillName | str] = USUAL_DRILLS,
    seed: int | None = None,
    watch: RehearsalWatch | None = None,
) -> Rehearsed:
    """Rehearse a run: train, kill and resume, reshard, evaluate, export. Needs the worker extra.

    Args:
        path: The spec. The report is written next to it.
        overrides: Fields to override.
        drills: The drills to run. Default: all but `full-size`. `arguments` and `full-size` need no
            twin.
        seed: The seed of an earlier rehearsal, to repeat its kill drill.
        watch: Receives the progress.
    """
    watch = watch or RehearsalWatch()
    file, catalog = Path(path), default_catalog()
    loaded, plan = load_plan(path, overrides, catalog, tell=watch.tell)
    worker_python(ENGINES[plan.spec.engine.name])
    _require_writable(file.parent)
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S")
    directory = file.parent / ".seatrial" / plan.spec.name / f"rehearsal-{stamp}"
    chosen = tuple(map(DrillName, drills))
    seed = random.randrange(1 << 16) if seed is None else seed  # noqa: S311
    request = RehearsalRequest(loaded, plan, catalog, directory, seed, chosen)
    twins = [] if WITHOUT_TWIN.issuperset(chosen) else make_twins(request)
    if watch.began is not None:
        watch.began(plan, twins)
    results = []
    for result in run_drills(request, twins, watch.announce or _announce_nothing):
        results.append(result)
        if watch.drilled is not None:
            watch.drilled(result)
    report = report_of(request, twins, results)
    target = directory.parent / f"{directory.name}.json"
    write_report(report, target)
    return Rehearsed(plan, tuple(twins), report, target)


def _announce_nothing(drill: DrillName, doing: str, step: int) -> None: ...


def _require_writable(directory: Path) -> None:
    """Raise if the spec's directory is not writable."""
    if not os.access(directory, os.W_OK):
        raise UsageError(
            f"{directory} is not writable, and a rehearsal writes its logs and its report next to "
            "the spec. Copy the spec to a directory that you can write to."
        )
