# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Ranks of the real engine that are stopped, by seed; and half an hour without an alarm.

SEATRIAL_FAULT_SEEDS=0:5 chooses the seeds, SEATRIAL_MINUTES is the length of the other test. Both
append to build/fault-results.jsonl.
"""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from seatrial.codes.supervisor import SupervisorCode
from seatrial.monitoring.event_log import EventKind
from seatrial.monitoring.processes import state
from seatrial.worker.supervisor.timeouts import EARLY_STEPS
from tests.engine.supervised import MODEL, Supervised
from tests.faults.checkpoint_starts import record, seeds
from tests.faults.supervisor_kills import SAVE_EVERY, Setting, all_new, in_flight

pytestmark = [pytest.mark.faults, pytest.mark.engine, pytest.mark.timeout(7200)]

STOPS = 20
MINUTES = "SEATRIAL_MINUTES"


def test_a_rank_that_is_stopped_is_noticed_in_time(tmp_path: Path) -> None:
    late = []
    run = Supervised(tmp_path, Setting(2, False).arguments(1_000_000))
    try:
        for seed in seeds(STOPS):
            seconds, bound, moment, named = stop(run, seed)
            right = seconds <= bound and named
            values = {"seed": seed, "moment": moment, "seconds": seconds, "bound": bound}
            record("stops", **values, named=named, right=right)
            print(f"STOP | {values} | {'right' if right else 'WRONG'} |", flush=True)  # noqa: T201
            if not right:
                late.append(values)
    finally:
        run.end()
    assert late == []


def stop(run: Supervised, seed: int) -> tuple[float, float, str, bool]:
    """Stop a rank: seconds until that was reported, how many it may be, when, and whether named."""
    source = random.Random(seed)  # noqa: S311  (drawn to be repeated)
    # Enough steps to know what is usual.
    start = run.trains_from(0)[0].resumed
    run.trains_from(start + EARLY_STEPS + source.randrange(SAVE_EVERY))
    moment, began = source.choice(("step", "save")), time.time()
    if moment == "save":
        run.until(lambda: in_flight(run.saved, began))
    beats = run.beats()
    victim = beats[source.randrange(len(beats))]
    before = len(run.findings(SupervisorCode.SILENT))
    bound = max(10.0, 5 * run.usual_step())
    os.kill(victim.process, signal.SIGSTOP)
    stopped = time.time()
    noticed = run.reported(SupervisorCode.SILENT, before)
    run.until(lambda: not state(victim.process))
    known = {beat.process for beat in beats}
    run.until(lambda: all_new(run, known) and all(b.step > b.resumed >= 0 for b in run.beats()))
    named = noticed.values["stopped"] == [victim.rank]
    return noticed.time - stopped, bound, moment, named


def test_half_an_hour_with_slow_saves_has_no_alarm(tmp_path: Path) -> None:
    minutes = float(os.environ.get(MINUTES, "30"))
    model = {**MODEL, "train-iters": 1_000_000, "save-interval": 20}
    run = Supervised(tmp_path, model, SEATRIAL_DRILL_FAULT="slow-saves")
    try:
        run.trains_from(1)
        until = time.monotonic() + 60 * minutes
        while time.monotonic() < until and run.process.poll() is None:
            time.sleep(1)
        alarms = len(run.findings(SupervisorCode.SILENT))
        assert run.process.poll() is None
        usual, steps = run.usual_step(), len(run.events(EventKind.STEP))
    finally:
        run.end()
    saves = [event.values["seconds"] for event in run.events(EventKind.SAVE)]
    quick, slow = sorted(saves[0::2]), sorted(saves[1::2])
    ratio = slow[len(slow) // 2] / quick[len(quick) // 2]
    restarts = len(run.events(EventKind.START)) - 1
    right = ratio > 5 and not alarms and not restarts
    record(
        "calm",
        minutes=minutes,
        steps=steps,
        saves=len(saves),
        ratio=ratio,
        usual_step=usual,
        alarms=alarms,
        right=right,
    )
    print(  # noqa: T201
        f"\n{minutes:g} min, {steps} steps, {len(saves)} saves, every second {ratio:.0f} × as "
        f"long; 99 % of steps took at most {usual:.2f} s; {alarms} alarms, {restarts} restarts"
    )
    assert right
