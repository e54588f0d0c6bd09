# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measure what the worker costs over the engine bare: step times of both, in turns.

    SEATRIAL_WORKER_PYTHON=... python -m benchmarks.worker_overhead [RUNS] [STEPS]

In each run the two take turns of a few steps (`alternate_steps.py` says why), until each had
that many steps. The bar: steps of at least 50 ms, a median ratio of at most 1.01, and a 95 %
interval (bootstrap over runs and turns) that ends at 1.03 or below. A second line compares the
bare engine with itself, which should give 1. Ends with 1 when the bar is not met.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from seatrial.engine_process.process import worker_python
from seatrial.engines.megatron.command_line import command_line
from seatrial.engines.megatron.trial import CPU_ARGUMENTS
from seatrial.engines.registry import ENGINES

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "build/engine-figures.jsonl"
STEPS_A_TURN = 4
WARM_UP_ROUNDS = 2
"""Rounds of four turns that are not counted."""
SHORTEST_STEP = 50.0
BARE, WORKER = "bare", "worker"
MODEL = {
    "num-layers": 4,
    "hidden-size": 256,
    "num-attention-heads": 4,
    "seq-length": 128,
    "max-position-embeddings": 128,
    "micro-batch-size": 1,
    "global-batch-size": 1,
    "lr": 1e-3,
    "lr-decay-style": "constant",
    "mock-data": True,
    "tokenizer-type": "NullTokenizer",
    "vocab-size": 8191,
    "eval-iters": 0,
    "eval-interval": 100000,
    "log-interval": 1,
    **CPU_ARGUMENTS,
}

Run = list[float]
"""Ratios of one run, one for each round: two turns of one over the two of the other."""


def environment(events: Path) -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "PYTHONWARNINGS": "ignore",
        "SEATRIAL_DEVICE": "cpu",
        "SEATRIAL_EVENTS": str(events),
        "OMP_NUM_THREADS": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        "WORLD_SIZE": "1",
        "RANK": "0",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(20000 + random.randrange(20000)),
    }


def run(first: str, steps: int, directory: Path) -> tuple[list[float], list[float]]:
    """Milliseconds a step, turn by turn: of the first of the two, and of the bare engine."""
    # Turned round half-way, so that a steady drift cancels out.
    modes = [first, BARE, BARE, first]
    rounds = WARM_UP_ROUNDS + steps // (2 * STEPS_A_TURN)
    times_file = directory / "times"
    words = [
        worker_python(ENGINES["megatron"]),
        str(ROOT / "benchmarks/alternate_steps.py"),
        str(times_file),
    ]
    words += [str(STEPS_A_TURN), ",".join(modes)]
    words += command_line({**MODEL, "train-iters": rounds * len(modes) * STEPS_A_TURN + 1})
    subprocess.run(
        words,
        env=environment(directory / "events.jsonl"),
        stdout=subprocess.DEVNULL,
        check=True,
    )
    lines = [line.split() for line in times_file.read_text().splitlines()]
    if [mode for mode, _ in lines] != modes * rounds:
        raise SystemExit("the turns were not taken as planned: has the engine's loop changed?")
    turns = [float(time) for _, time in lines][WARM_UP_ROUNDS * len(modes) :]
    ours = [turns[i] for i in range(len(turns)) if i % 4 in (0, 3)]
    bare = [turns[i] for i in range(len(turns)) if i % 4 in (1, 2)]
    return ours, bare


def rounds_of(ours: list[float], bare: list[float]) -> Run:
    return [sum(ours[i : i + 2]) / sum(bare[i : i + 2]) for i in range(0, len(ours), 2)]


def ratio_of(runs: list[Run]) -> float:
    """The median over runs of the median over rounds."""
    return statistics.median(statistics.median(ratios) for ratios in runs)


def interval(runs: list[Run]) -> tuple[float, float]:
    """The 95 % interval of the ratio, by drawing runs and rounds again."""
    draw = random.Random(1)
    ratios = sorted(
        ratio_of([draw.choices(one, k=len(one)) for one in draw.choices(runs, k=len(runs))])
        for _ in range(2000)
    )
    return ratios[50], ratios[-51]


def compare(title: str, first: str, count: int, steps: int) -> tuple[float, float]:
    """Print the runs of one against the bare engine; the ratio and the end of its interval."""
    runs = []
    for number in range(count):
        with tempfile.TemporaryDirectory() as name:
            ours, bare = run(first, steps, Path(name))
        runs.append(rounds_of(ours, bare))
        print(
            f"{title}, run {number + 1}: {statistics.median(ours):.1f} ms and "
            f"{statistics.median(bare):.1f} ms a step, ratio {ratio_of(runs[-1:]):.4f}",
            flush=True,
        )
        if min(*ours, *bare) < SHORTEST_STEP:
            raise SystemExit(f"a step takes less than {SHORTEST_STEP:.0f} ms: enlarge the model.")
    ratio, (low, high) = ratio_of(runs), interval(runs)
    print(f"{title}: median ratio {ratio:.4f}, 95 % interval {low:.4f} to {high:.4f}", flush=True)
    FIGURES.parent.mkdir(exist_ok=True)
    with FIGURES.open("a") as stream:
        row = [title, f"{ratio:.4f}", f"{low:.4f} to {high:.4f}"]
        stream.write(json.dumps({"table": "overhead", "row": row}) + "\n")
    return ratio, high


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    ratio, high = compare("worker over bare", WORKER, count, steps)
    compare("bare over bare", BARE, count, steps)
    return 0 if ratio <= 1.01 and high <= 1.03 else 1


if __name__ == "__main__":
    sys.exit(main())
