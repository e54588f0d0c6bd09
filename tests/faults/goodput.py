# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measure the goodput of a supervised training under faults, beside the Young/Daly ideal.

    python -m tests.faults.goodput costs [--times 10]
    python -m tests.faults.goodput faults --seed 0 [--faults 3] [--mean 120]

Needs SEATRIAL_WORKER_PYTHON. `costs` takes the medians of undisturbed saves and cold starts, and of
steps. `faults` trains with the real engine and two ranks, and kills a rank or torchrun at times
drawn from an exponential distribution, whatever the training is at; checkpoints are saved at Young
and Daly's interval, √(2 × save × mean time between faults). Both append to
build/fault-results.jsonl, so that a series of 30 faults can be made of pieces; the newest costs
count. Between faults the ideal starts in the cost of a cold start, saves at that interval and loses
what was not saved; all else that takes time here is loss: noticing, waiting, verifying. Every step
waits, as a host does for its GPUs, so that two cores are enough for what else there is to do.
"""

import argparse
import json
import math
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from docs.tools.recorded_tables import FAULTS
from seatrial.monitoring.event_log import EventKind
from seatrial.monitoring.goodput import Bucket
from seatrial.monitoring.view import RunView
from tests.engine.supervised import Supervised
from tests.faults.checkpoint_starts import record
from tests.faults.supervisor_kills import Setting

LONG = 1_000_000
"""Steps of a training that is not to end by itself."""
COSTS = "goodput-costs"
SAVES_PER_START = 2
WAITING = "waiting-steps"


@dataclass(frozen=True, slots=True)
class Costs:
    """What things take when nothing is wrong."""

    save_seconds: float
    restart_seconds: float
    """From the start of the supervisor to the beginning of training."""
    step_seconds: float

    def interval(self, mean: float) -> float:
        """Young and Daly's time between saves, for a mean time between faults."""
        return math.sqrt(2 * self.save_seconds * mean)


def useful(costs: Costs, interval: float, gaps: Sequence[float]) -> float:
    """Seconds in which the ideal gets on: a fault ends each gap but the last."""
    total = 0.0
    for number, gap in enumerate(gaps):
        left = max(0.0, gap - costs.restart_seconds)
        saved = math.floor(left / (interval + costs.save_seconds))
        total += saved * interval
        if number == len(gaps) - 1:
            total += min(interval, left - saved * (interval + costs.save_seconds))
    return total


def measured_costs(times: int) -> Costs:
    starts: list[float] = []
    saves: list[float] = []
    steps: list[float] = []
    arguments = Setting(2, False).arguments(LONG) | {"save-interval": 50}
    for number in range(times):
        with tempfile.TemporaryDirectory() as directory:
            began = time.time()
            run = Supervised(Path(directory), arguments, SEATRIAL_DRILL_FAULT=WAITING)
            try:
                run.until(lambda run=run: saved_often(run), every=0.25)  # type: ignore[misc]
            finally:
                run.end()
            starts.append(run.events(EventKind.START)[0].time - began)
            saves += [event.values["seconds"] for event in run.events(EventKind.SAVE)]
            steps += [event.values["seconds"] for event in run.events(EventKind.STEP)[5:]]
        print(f"{number + 1} of {times}: start {starts[-1]:.1f} s, save {saves[-1]:.3f} s")
    return Costs(*map(statistics.median, (saves, starts, steps)))


def saved_often(run: Supervised) -> bool:
    """Whether a training has saved as often as is looked at."""
    return len(run.events(EventKind.SAVE)) >= SAVES_PER_START


def newest_costs() -> Costs:
    lines = FAULTS.read_text().splitlines() if FAULTS.exists() else []
    found = [case for case in map(json.loads, lines) if case["suite"] == COSTS]
    if not found:
        sys.exit("no costs were measured yet: python -m tests.faults.goodput costs")
    names = Costs.__dataclass_fields__
    return Costs(**{name: found[-1][name] for name in names})


def disturbed(seed: int, faults: int, mean: float, costs: Costs) -> dict[str, object]:
    """Train through some faults, and say where the time went."""
    source = random.Random(seed)
    drawn = [source.expovariate(1 / mean) for _ in range(faults + 1)]
    interval = costs.interval(mean)
    every = max(1, round(interval / costs.step_seconds))
    with tempfile.TemporaryDirectory() as directory:
        arguments = Setting(2, False).arguments(LONG) | {"save-interval": every}
        began, gaps = time.time(), []
        run = Supervised(Path(directory), arguments, SEATRIAL_DRILL_FAULT=WAITING)
        last = began
        try:
            for gap in drawn[:-1]:
                time.sleep(max(0.0, last + gap - time.time()))
                kill(run, source)
                gaps.append(time.time() - last)
                last = time.time()
            time.sleep(drawn[-1])
            gaps.append(time.time() - last)
        finally:
            ended = time.time()
            run.end()
        view = RunView()
        view.begin(1, began)
        for kind in run.all_events():
            view.take(kind)
        view.end(ended)
    spent, wall = view.goodput(), ended - began
    return {
        "seed": seed,
        "faults": faults,
        "wall_seconds": wall,
        "training_seconds": spent.seconds[Bucket.TRAINING],
        "ideal_seconds": useful(costs, interval, gaps),
        "buckets_apart": abs(spent.wall - wall) / wall,
        "save_every_steps": every,
        **{f"{bucket}_seconds": seconds for bucket, seconds in spent.seconds.items()},
        **asdict(costs),
    }


def kill(run: Supervised, source: random.Random) -> None:
    ranks = [beat.process for beat in run.beats()]
    victim = source.choice(ranks) if ranks and source.random() < 0.5 else run.agent()
    os.kill(victim, signal.SIGKILL)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.goodput")
    asked = parser.add_subparsers(dest="what", required=True)
    undisturbed = asked.add_parser("costs")
    undisturbed.add_argument("--times", type=int, default=10)
    piece = asked.add_parser("faults")
    piece.add_argument("--seed", type=int, required=True)
    piece.add_argument("--faults", type=int, default=3)
    piece.add_argument("--mean", type=float, default=120.0)
    given = parser.parse_args()
    if given.what == "costs":
        costs = measured_costs(given.times)
        record(COSTS, times=given.times, **asdict(costs))
        print(costs)
        return 0
    values = disturbed(given.seed, given.faults, given.mean, newest_costs())
    record("goodput", **values)
    share = values["training_seconds"], values["ideal_seconds"], values["wall_seconds"]
    print("training {:.1f} s, ideal {:.1f} s, of {:.1f} s".format(*share))
    print(json.dumps(values))
    return 0


if __name__ == "__main__":
    sys.exit(main())
