# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Ranks and agents of the real engine killed at random, by seed; and half an hour without alarm.

`SEATRIAL_SEEDS=0:20` chooses the seeds, one kill each, in one training that goes on from kill to
kill; every seed adds a line to `build/faults/supervisor.jsonl`, so that the suite can be continued.
`SEATRIAL_MINUTES` is the length of the other test.
"""

import json
import os
import random
import signal
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

import pytest

from seatrial.monitoring.event_log import Event, EventKind
from seatrial.monitoring.processes import state
from seatrial.rehearsal.worker_process import differing_tensors
from seatrial.worker.supervisor.beats import Beat, Phase
from seatrial.worker.supervisor.codes import SupervisorCode
from tests.engine.supervised import MODEL, Supervised, differing, undisturbed

pytestmark = [pytest.mark.faults, pytest.mark.engine, pytest.mark.timeout(7200)]

RESULTS = Path(__file__).parents[2] / "build" / "faults" / "supervisor.jsonl"
SAVE_EVERY = 5
BETWEEN = 16
"""Steps of training for each kill: more than a draw needs, so that the last kill comes in time."""


class Target(StrEnum):
    """What is killed."""

    RANK = "rank"
    AGENT = "agent"
    BOTH = "both"


class Moment(StrEnum):
    """When."""

    STEP = "step"
    SAVE = "save"
    LOAD = "load"


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill, as its seed draws it."""

    seed: int
    target: Target
    moment: Moment
    rank: int
    """Of a rank."""
    steps: int
    """After so many steps since the start before."""
    delay: float
    """Seconds after that."""


def draw(seed: int, ranks: int) -> Kill:
    """The kill of a seed."""
    source = random.Random(seed)  # noqa: S311  (drawn to be repeated)
    target = source.choice(list(Target))
    moment = source.choices(list(Moment), weights=(6, 3, 1))[0]
    return Kill(
        *(seed, target, moment, source.randrange(ranks)),
        source.randint(2, 2 * SAVE_EVERY + 2),
        source.uniform(0.0, 0.2),
    )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a kill led to."""

    kill: Kill
    step: int
    """The newest step when it came."""
    resumed: int
    """The step that the next start went on from."""
    orphans_seconds: float
    """Until no process of the killed start was left."""
    recovery_seconds: float
    """From the kill to the next step that was done."""


def seeds() -> range:
    first, _, last = os.environ.get("SEATRIAL_SEEDS", "0:20").partition(":")
    return range(int(first), int(last))


def write(outcome: Outcome, **more: object) -> None:
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with RESULTS.open("a") as stream:
        stream.write(json.dumps({**asdict(outcome), **more}) + "\n")


def disturb(run: Supervised, kill: Kill) -> Outcome:
    """Kill once, and wait until training goes on."""
    beats = wait_for(run, kill)
    time.sleep(kill.delay)
    step = max(beat.step for beat in run.beats())
    agent, left = run.agent(), run.others()
    known = {beat.process for beat in beats}
    victim = beats[kill.rank % len(beats)].process
    began = time.monotonic()
    if kill.target is not Target.AGENT:
        os.kill(victim, signal.SIGKILL)
    if kill.target is not Target.RANK:
        os.kill(agent, signal.SIGKILL)
    orphans = run.until(lambda: not any(map(state, left)))
    run.until(lambda: all_new(run, known) and all(b.step > b.resumed >= 0 for b in run.beats()))
    return Outcome(kill, step, run.beats()[0].resumed, orphans, time.monotonic() - began)


def all_new(run: Supervised, known: set[int]) -> bool:
    beats = run.beats()
    return len(beats) == run.processes and not known & {beat.process for beat in beats}


def wait_for(run: Supervised, kill: Kill) -> list[Beat]:
    """The ranks at the moment of a kill."""

    def come() -> bool:
        beats = run.beats()
        if len(beats) < run.processes:
            return False
        if kill.moment is Moment.LOAD:
            return True
        if any(beat.resumed < 0 or beat.step < beat.resumed + kill.steps for beat in beats):
            return False
        return kill.moment is Moment.STEP or beats[0].phase is Phase.SAVING

    if kill.moment is Moment.LOAD:
        # A start of its own is killed on its way: first bring it about.
        ready = run.trains_from(0)
        os.kill(ready[0].process, signal.SIGKILL)
        gone = {beat.process for beat in ready}
        run.until(lambda: all_new(run, gone))
        time.sleep(20 * kill.delay)
    run.until(come)
    return run.beats()


def test_random_kills_leave_no_trace(tmp_path: Path) -> None:
    chosen = seeds()
    steps = BETWEEN * (len(chosen) + 2)
    model = {**MODEL, "train-iters": steps, "save-interval": SAVE_EVERY}
    saved, reference = undisturbed(tmp_path / "straight", model)
    run = Supervised(tmp_path / "run", model)
    outcomes: list[tuple[Outcome, int]] = []
    try:
        for seed in chosen:
            before = len(run.events(EventKind.STEP))
            outcomes.append((disturb(run, draw(seed, 2)), before))
        assert run.finish() == 0
    finally:
        run.end()
    done = run.events(EventKind.STEP)
    wrong = 0
    for number, (outcome, first) in enumerate(outcomes):
        last = outcomes[number + 1][1] if number + 1 < len(outcomes) else len(done)
        different = differing(reference, done[first:last])
        write(outcome, differing=different)
        wrong += bool(different)
    tensors, changed = differing_tensors(
        saved / f"iter_{steps:07d}", run.saved / f"iter_{steps:07d}"
    )
    lost = [outcome.step - outcome.resumed for outcome, _ in outcomes]
    orphans = max(outcome.orphans_seconds for outcome, _ in outcomes)
    print(  # noqa: T201  (the figures are the result)
        f"\n{len(outcomes)} kills, {len(done)} steps done of {steps}, {wrong} kills with differing "
        f"steps, {len(changed)} of {tensors} tensors differ, at most {max(lost)} steps lost, "
        f"processes gone within {orphans:.2f} s"
    )
    assert wrong == 0
    assert changed == []
    assert max(lost) <= SAVE_EVERY
    assert orphans <= 5.0


def test_half_an_hour_with_slow_saves_has_no_alarm(tmp_path: Path) -> None:
    minutes = float(os.environ.get("SEATRIAL_MINUTES", "30"))
    model = {**MODEL, "train-iters": 1_000_000, "save-interval": 20}
    run = Supervised(tmp_path, model, SEATRIAL_DRILL_FAULT="slow-saves")
    try:
        run.trains_from(1)
        until = time.monotonic() + 60 * minutes
        while time.monotonic() < until and run.process.poll() is None:
            time.sleep(1)
        alarms = run.findings(SupervisorCode.SILENT)
        assert run.process.poll() is None
        usual, steps = run.usual_step(), run.events(EventKind.STEP)
    finally:
        run.end()
    saves = [event.values["seconds"] for event in run.events(EventKind.SAVE)]
    slowest = max(saves, default=0.0) / min(saves, default=1.0)
    print(  # noqa: T201
        f"\n{minutes:g} min, {len(steps)} steps, {len(saves)} saves, the slowest {slowest:.0f} × "
        f"the quickest; 99 % of steps took at most {usual:.2f} s; {len(alarms)} alarms"
    )
    assert slowest >= 10
    assert alarms == []
    assert restarts(run) == 0


def restarts(run: Supervised) -> int:
    starts: list[Event] = run.events(EventKind.START)
    return len(starts) - 1
