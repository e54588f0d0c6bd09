# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""200 kills of ranks and agents of the real engine, by seed: no bit of the training differs.

Run in pieces: SEATRIAL_FAULT_SEEDS=0:20 make faults ARGS='-k random_kills'; every kill is appended
to build/fault-results.jsonl. One kill again: SEATRIAL_FAULT_SEEDS=17:18.
"""

from dataclasses import asdict
from itertools import groupby
from pathlib import Path

import pytest

from seatrial.engine_process.process import differing_tensors
from seatrial.engines.megatron.checkpoint_names import NAMING
from seatrial.monitoring.event_log import EventKind
from tests.conftest import MEGATRON
from tests.engine.supervised import Figures, Supervised, differing, undisturbed
from tests.faults.checkpoint_starts import record, seeds
from tests.faults.supervisor_kills import (
    BETWEEN,
    GROUP,
    Outcome,
    Setting,
    Target,
    disturb,
    draw,
    setting,
)

pytestmark = [pytest.mark.faults, pytest.mark.engine, pytest.mark.timeout(7200)]

KILLS = 200
ORPHANS_SECONDS = 5.0


def test_random_kills_leave_no_trace(tmp_path: Path) -> None:
    references: dict[int, tuple[Path, Figures]] = {}
    wrong: list[object] = []
    groups = {n: list(some) for n, some in groupby(seeds(KILLS), lambda seed: seed // GROUP)}
    # The same for all trainings: the order of the data may depend on it.
    steps = BETWEEN * (max(map(len, groups.values())) + 1)
    for group, chosen in groups.items():
        what = setting(group)
        if what.ranks not in references:
            calm = Setting(what.ranks, False).arguments(steps)
            references[what.ranks] = undisturbed(tmp_path / f"calm-{what.ranks}", calm, what.ranks)
        where, reference = tmp_path / f"group-{group}", references[what.ranks]
        wrong += kills_of_one_training(where, what, steps, chosen, reference)
    assert wrong == []


def kills_of_one_training(
    directory: Path,
    what: Setting,
    steps: int,
    chosen: list[int],
    reference: tuple[Path, Figures],
) -> list[object]:
    """Whatever is not as it must be."""
    saved, figures = reference
    wrong: list[object] = []
    # As a run does that is asked to keep few checkpoints.
    few = {"SEATRIAL_KEEP_LAST": "3"}
    run = Supervised(directory, what.arguments(steps), what.ranks, **few)
    seen = 0
    try:
        for seed in chosen:
            kill = draw(seed, what.ranks)
            outcome = disturb(run, kill)
            done = run.events(EventKind.STEP)
            different = differing(figures, done[seen:])
            seen = len(done)
            right = is_right(outcome, kill.target, what) and not different
            values = {**asdict(kill), **asdict(what), **asdict(outcome)}
            record("kills", **values, lost=outcome.lost, differing=different, right=right)
            print(f"KILL | {kill} | {outcome} | {'right' if right else 'WRONG'} |", flush=True)  # noqa: T201
            if not right:
                wrong.append((kill, outcome, different))
        code = run.finish()
    finally:
        run.end()
    different = differing(figures, run.events(EventKind.STEP)[seen:])
    last = NAMING.directory_name(steps)
    tensors, changed = differing_tensors(saved / last, run.saved / last, engine=MEGATRON)
    values = {"first": chosen[0], "last": chosen[-1], **asdict(what), "code": code}
    found = {"differing": different, "tensors": tensors, "changed": len(changed)}
    record("kills-end", **values, **found)
    print(f"END | {values} | {found} |", flush=True)  # noqa: T201
    if code or different or changed:
        wrong.append((values, found))
    return wrong


def is_right(outcome: Outcome, target: Target, what: Setting) -> bool:
    """Whether nothing was lost that was committed, nor more than the interval allows."""
    in_time = target is Target.RANK or outcome.orphans_seconds <= ORPHANS_SECONDS
    few = outcome.lost <= outcome.allowed(what.asynchronous)
    return outcome.resumed == outcome.committed and few and in_time
