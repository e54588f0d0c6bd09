# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A run rehearsed: the real engine on this host's CPU, with a shrunk twin of the plan."""

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
from seatrial.rehearsal.drills import Announce, DrillName, Result
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
    """What came of a rehearsal."""

    plan: Plan
    """What was rehearsed."""
    twins: tuple[Twin, ...]
    """The shrunk runs that were trained; none where only arguments were asked about."""
    report: RehearsalReport
    """The result of every drill."""
    file: Path
    """Where the report is."""


@dataclass(frozen=True, slots=True)
class RehearsalWatch:
    """Who is told how a rehearsal goes on."""

    tell: Tell | None = None
    """Why a kept plan was made anew."""
    began: Callable[[Plan, Sequence[Twin]], None] | None = None
    """The twins, before the first drill."""
    announce: Announce | None = None
    """How far a drill is."""
    drilled: Callable[[Result], None] | None = None
    """The result of each drill, as soon as it is there."""


def rehearse(
    path: PathOrText,
    overrides: Overrides = (),
    *,
    drills: Sequence[DrillName | str] = tuple(DrillName),
    seed: int | None = None,
    watch: RehearsalWatch | None = None,
) -> Rehearsed:
    """Rehearse a run: train, kill and resume, reshard, evaluate, export; needs the worker extra.

    Args:
        path: The spec; the report is written beside it.
        overrides: Fields to set differently.
        drills: The drills to run, all when absent; `arguments` alone needs no twin.
        seed: Repeats the kill of an earlier rehearsal.
        watch: Told how it goes on.
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
    twins = [] if chosen == (DrillName.ARGUMENTS,) else make_twins(request)
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
    """Refuse to work beside a spec where nothing can be written."""
    if not os.access(directory, os.W_OK):
        raise UsageError(
            f"{directory} cannot be written to, and a rehearsal keeps its logs and its report "
            "beside the spec. Copy the spec to a directory of your own."
        )
