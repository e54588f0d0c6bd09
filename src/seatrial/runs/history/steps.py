# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measured steps from a run's event log, and whether they were taken with the layout of a plan."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seatrial.errors import UsageError
from seatrial.monitoring.event_log import EventKind, read_events
from seatrial.planning.plan import Plan

DIGEST = "plan_digest"
"""Where a start names the plan itself."""
WORLD = "world_size"
"""On how many ranks a start ran."""


@dataclass(frozen=True, slots=True)
class MeasuredStart:
    """The steps after one start of the processes."""

    ran: Mapping[str, Any]
    """What the start says that it ran with; empty for steps before any start."""
    seconds: list[float] = field(default_factory=list)
    """Seconds of its steps, in order; skipped ones are left out."""


def logged_steps(log: Path) -> list[MeasuredStart]:
    """The starts of an event log that have steps."""
    if not log.is_file():
        raise UsageError(f"{log} is not a file. Give the event log that the run writes.")
    starts = [MeasuredStart({})]
    for event in read_events(log):
        if event.kind is EventKind.START:
            starts.append(MeasuredStart(event.values))
        elif event.kind is EventKind.STEP and not event.values.get("skipped"):
            seconds = event.values.get("seconds")
            if isinstance(seconds, (int, float)) and math.isfinite(seconds) and seconds > 0:
                starts[-1].seconds.append(float(seconds))
    if not any(start.seconds for start in starts):
        raise UsageError(f"{log} tells of no steps with their seconds. Is it an event log?")
    return [start for start in starts if start.seconds]


def of_this_plan(starts: Sequence[MeasuredStart], plan: Plan, log: Path) -> list[list[float]]:
    """The times of the starts that ran the plan; refused when none did.

    A start that does not say what it ran with is not taken for the plan's.
    """
    differ = [difference(start.ran, plan) for start in starts]
    taken = [start.seconds for start, words in zip(starts, differ, strict=True) if not words]
    if taken:
        return taken
    raise UsageError(
        f"{log}: a calibration compares steps with the layout that they ran with, and none of "
        f"the {len(starts)} starts with steps ran this plan: {differ[-1]}. Give the log of a run "
        "of this spec, or write into the spec what that run had."
    )


def difference(ran: Mapping[str, Any], plan: Plan) -> str:
    """In what a start differs from a plan, in words; nothing when it does not."""
    if ran.get(DIGEST) is not None:
        same = ran[DIGEST] == plan.digest
        return "" if same else f"it ran {str(ran[DIGEST])[:19]}, and this is {plan.digest[:19]}"
    if ran.get(WORLD) is None:
        return "it does not say on how many ranks it ran"
    wanted = signature(plan)
    missing = [name for name in wanted if ran.get(name) is None]
    if missing:
        return f"it does not say its {', '.join(missing)}"
    # Nothing is a value of these: it stands for even stages.
    wanted |= {name: value for name, value in further(plan).items() if name in ran}
    return ", ".join(
        f"it had {name} {ran[name]}, and the plan has {value}"
        for name, value in wanted.items()
        if ran[name] != value
    )


def signature(plan: Plan) -> dict[str, int | str | None]:
    """What the time of a step depends on, under the names that every start has for it."""
    layout, batch, model = plan.layout, plan.batch, plan.model
    return {
        WORLD: layout.world_size,
        "tp_size": layout.tp_size,
        "pp_size": layout.pp_size,
        "vp_size": layout.vp_size,
        "cp_size": layout.cp_size,
        "ep_size": layout.ep_size,
        "recompute": str(plan.recompute),
        "micro_batch_size": batch.micro_batch_size,
        "global_batch_size": batch.global_batch_size,
        "sequence_length": model.sequence_length,
        "layers": model.architecture.layers,
        "hidden_size": model.architecture.hidden_size,
    }


def further(plan: Plan) -> dict[str, int | str | None]:
    """What it depends on too, and not every start says."""
    return {
        "sequence_parallel": plan.sequence_parallel,
        "sharding": str(plan.sharding),
        "first_stage_layers": plan.spec.parallelism.first_stage_layers,
        "last_stage_layers": plan.spec.parallelism.last_stage_layers,
    }
