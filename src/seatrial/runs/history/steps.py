# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Read measured steps from an event log, and check that they ran with the layout of a plan."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seatrial.errors import UsageError
from seatrial.monitoring.event_log import EventKind, read_events
from seatrial.planning.plan import Plan

DIGEST = "plan_digest"
"""The key of a start event with the plan's digest."""
WORLD = "world_size"
"""The key of a start event with its number of ranks."""


@dataclass(frozen=True, slots=True)
class MeasuredStart:
    """The steps after one start of the processes."""

    ran: Mapping[str, Any]
    """The values of the start event. Empty for steps before any start."""
    seconds: list[float] = field(default_factory=list)
    """The step times in order, without skipped steps."""


def logged_steps(log: Path) -> list[MeasuredStart]:
    """Return the starts in an event log that have steps."""
    if not log.is_file():
        raise UsageError(f"{log} is not a file. Pass the run's event log, events.jsonl.")
    starts = [MeasuredStart({})]
    for event in read_events(log):
        if event.kind is EventKind.START:
            starts.append(MeasuredStart(event.values))
        elif event.kind is EventKind.STEP and not event.values.get("skipped"):
            # Early steps of a batch schedule are shorter than those of the plan.
            own, last = (v.get("global_batch_size") for v in (event.values, starts[-1].ran))
            if None not in (own, last) and own != last:
                continue
            seconds = event.values.get("seconds")
            if isinstance(seconds, (int, float)) and math.isfinite(seconds) and seconds > 0:
                starts[-1].seconds.append(float(seconds))
    if not any(start.seconds for start in starts):
        raise UsageError(f"{log} contains no step times. Is it an event log?")
    return [start for start in starts if start.seconds]


def of_this_plan(starts: Sequence[MeasuredStart], plan: Plan, log: Path) -> list[list[float]]:
    """Return the step times of the starts that ran the plan. Raises if there are none.

    A start without a description of its layout does not count.
    """
    differ = [difference(start.ran, plan) for start in starts]
    taken = [start.seconds for start, words in zip(starts, differ, strict=True) if not words]
    if taken:
        return taken
    raise UsageError(
        f"{log}: a calibration needs steps that ran with this plan's layout, but none of the "
        f"{len(starts)} starts with steps did: {differ[-1]}. Pass the log of a run with this "
        "spec, or set the values from the log in the spec."
    )


def difference(ran: Mapping[str, Any], plan: Plan) -> str:
    """Describe how a start differs from a plan. Empty if it does not."""
    if ran.get(DIGEST) is not None:
        same = ran[DIGEST] == plan.digest
        return "" if same else f"it ran plan {str(ran[DIGEST])[:19]}, not {plan.digest[:19]}"
    if ran.get(WORLD) is None:
        return "it does not record its number of ranks"
    wanted = signature(plan)
    missing = [name for name in wanted if ran.get(name) is None]
    if missing:
        return f"it does not record its {', '.join(missing)}"
    # None is a valid value here: it means even stages.
    wanted |= {name: value for name, value in further(plan).items() if name in ran}
    return ", ".join(
        f"it ran with {name} {ran[name]}, but the plan has {value}"
        for name, value in wanted.items()
        if ran[name] != value
    )


def signature(plan: Plan) -> dict[str, int | str | None]:
    """Return the values that determine the step time, and that every start records."""
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
    """Return further values that determine the step time, and that not every start records."""
    return {
        "sequence_parallel": plan.sequence_parallel,
        "sharding": str(plan.sharding),
        "first_stage_layers": plan.spec.parallelism.first_stage_layers,
        "last_stage_layers": plan.spec.parallelism.last_stage_layers,
        "pipeline_layout": plan.spec.parallelism.pipeline_layout,
    }
