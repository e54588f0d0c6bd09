# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Kills that a seed draws, and how a supervised training is brought to the moment of one."""

import os
import random
import signal
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from seatrial.checkpoints.inventory import newest_step
from seatrial.checkpoints.naming import RECORD
from seatrial.engines.megatron.command_line import Arguments
from seatrial.monitoring.event_log import EventKind
from seatrial.monitoring.processes import state
from seatrial.storage.location import LocalPlace
from seatrial.worker.supervisor.heartbeats import Beat
from tests.engine.supervised import DROPOUT, Supervised
from tests.faults.checkpoint_starts import ASYNCHRONOUS, TINY

SAVE_EVERY = 10
GROUP = 10
"""Kills of one training, one after the other."""
BETWEEN = 40
"""Steps of training for each kill: more than a draw needs, so that the last kill comes in time."""
CHOSEN = ": resuming from it"
"""What a start says before it loads."""
PARALLEL: dict[int, Arguments] = {2: {}, 4: {"tensor-model-parallel-size": 2}}


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
    """Of the time within the moment, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a group of kills is done to."""

    ranks: int
    asynchronous: bool

    def arguments(self, steps: int) -> Arguments:
        """The training."""
        more: Arguments = {"train-iters": steps, "save-interval": SAVE_EVERY}
        beside = ASYNCHRONOUS if self.asynchronous else {}
        return {**TINY, **DROPOUT, **PARALLEL[self.ranks], **beside, **more}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a kill led to."""

    step: int
    """The newest step when it came."""
    committed: int
    """The newest step that was committed when all processes were gone."""
    resumed: int
    """The step that the next start went on from."""
    orphans_seconds: float
    """Until no process of the killed start was left."""
    recovery_seconds: float
    """From the kill to the next step that was done."""

    @property
    def lost(self) -> int:
        """Steps that had to be done again."""
        return self.step - self.resumed

    def allowed(self, asynchronous: bool) -> int:
        """How many that may be: the interval, and what was done while a save was in flight."""
        # At a step that is to be saved, the save before may still be in flight: it is waited for
        # only when the next one begins.
        begun = (self.step - 1) // SAVE_EVERY * SAVE_EVERY
        in_flight = self.step - begun if asynchronous and self.resumed < begun else 0
        return SAVE_EVERY + in_flight


def setting(group: int) -> Setting:
    """The setting of a group: every tenth has four ranks, every third of the others saves beside
    the training."""
    ranks = 4 if group % 10 == 9 else 2
    return Setting(ranks, ranks == 2 and group % 3 == 2)


def draw(seed: int, ranks: int) -> Kill:
    """The kill of a seed."""
    source = random.Random(seed)  # noqa: S311  (drawn to be repeated)
    target = source.choice(list(Target))
    moment = source.choices(list(Moment), weights=(5, 3, 2))[0]
    return Kill(
        *(seed, target, moment, source.randrange(ranks)),
        source.randint(2, 2 * SAVE_EVERY),
        source.random(),
    )


def disturb(run: Supervised, kill: Kill) -> Outcome:
    """Kill once, and wait until training goes on."""
    beats = bring_about(run, kill)
    known = {beat.process for beat in beats}
    agent, left = run.agent(), run.others()
    step = max((beat.step for beat in run.beats()), default=0)
    began = time.monotonic()
    if kill.target is not Target.AGENT:
        os.kill(beats[kill.rank % len(beats)].process, signal.SIGKILL)
    if kill.target is not Target.RANK:
        os.kill(agent, signal.SIGKILL)
    orphans = run.until(lambda: not any(map(state, left)))
    committed = newest_step(LocalPlace(str(run.saved)))
    step = max(step, last_step(run))
    run.until(lambda: all_new(run, known) and all(b.step > b.resumed >= 0 for b in run.beats()))
    took = time.monotonic() - began
    return Outcome(step, committed, run.beats()[0].resumed, orphans, took)


def last_step(run: Supervised) -> int:
    """The step that was done last, as the event log has it."""
    done = run.events(EventKind.STEP)
    return done[-1].step if done else 0


def all_new(run: Supervised, known: set[int]) -> bool:
    """Whether all ranks are there, and none of those that are known."""
    beats = run.beats()
    return len(beats) == run.processes and not known & {beat.process for beat in beats}


def bring_about(run: Supervised, kill: Kill) -> list[Beat]:
    """The ranks at the moment of a kill."""
    if kill.moment is Moment.LOAD:
        return start_on_its_way(run, kill)
    began = time.time()

    def come() -> bool:
        beats = run.beats()
        if len(beats) < run.processes:
            return False
        if any(beat.resumed < 0 or beat.step < beat.resumed + kill.steps for beat in beats):
            return False
        return kill.moment is Moment.STEP or in_flight(run.saved, began)

    run.until(come)
    # A step of this model takes some hundredths of a second, a save about a tenth.
    time.sleep(0.1 * kill.delay)
    return run.beats()


def in_flight(saved: Path, since: float) -> bool:
    """Whether a save has begun since a time and is not committed."""
    for path in saved.glob("iter_*"):
        try:
            if path.stat().st_mtime > since and not (path / RECORD).exists():
                return True
        except FileNotFoundError:
            continue
    return False


def start_on_its_way(run: Supervised, kill: Kill) -> list[Beat]:
    """Ranks that start or load: a start is brought about by a kill of its own."""
    # With a checkpoint: else there is nothing to load.
    run.until(lambda: newest_step(LocalPlace(str(run.saved))) > 0)
    ready = run.trains_from(0)
    gone = {beat.process for beat in ready}
    log = run.directory / "log"
    chosen = log.read_text(errors="replace").count(CHOSEN)
    os.kill(ready[0].process, signal.SIGKILL)
    run.until(lambda: all_new(run, gone))
    if kill.seed % 2:
        # As it loads the checkpoint that it has chosen.
        run.until(lambda: log.read_text(errors="replace").count(CHOSEN) > chosen)
        time.sleep(0.5 * kill.delay)
    else:
        time.sleep(5 * kill.delay)
    return run.beats()
