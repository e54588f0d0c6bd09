# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measure what the worker costs over the engine bare: step times of pairs of runs.

    SEATRIAL_WORKER_PYTHON=... python scripts/measure_worker_overhead.py [PAIRS] [STEPS]

The two runs of a pair take turns every few steps (`overhead/turns.py` says why). The bar: steps of
at least 50 ms, a median ratio of at most 1.01, and a 95 % interval (bootstrap over pairs and turns)
that ends at 1.03 or below. A second line compares the bare engine with itself, which should give 1.
Ends with 1 when the bar is not met.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from seatrial.engines.megatron.cpu import CPU_ARGUMENTS
from seatrial.engines.megatron.flags import command_line
from seatrial.rehearsal.worker_process import worker_python

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "build/engine-figures.jsonl"
STEPS_A_TURN = 4
WARM_UP_TURNS = 5
SHORTEST_STEP = 50.0
BARE = str(ROOT / "scripts/overhead/bare.py")
WORKER = "seatrial.worker"
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

Pair = list[tuple[float, float]]
"""Milliseconds a step of the first and of the second entry, turn by turn."""


def environment(events: Path) -> dict[str, str]:
    """What both entries get."""
    return os.environ | {
        "PYTHONPATH": str(ROOT / "src"),
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


def run_pair(entries: tuple[str, str], steps: int, directory: Path) -> Pair:
    """Run two entries in turns."""
    # The first starts with the turn: its pipe holds a byte already.
    pipes = [os.pipe(), os.pipe()]
    os.write(pipes[0][1], b".")
    processes, files = [], []
    for number, entry in enumerate(entries):
        mine, other = pipes[number][0], pipes[1 - number][1]
        files.append(directory / f"{number}.times")
        words = [worker_python(), str(ROOT / "scripts/overhead/turns.py"), str(mine), str(other)]
        words += [str(files[-1]), str(STEPS_A_TURN), entry]
        words += command_line({**MODEL, "train-iters": steps + WARM_UP_TURNS * STEPS_A_TURN + 1})
        processes.append(
            subprocess.Popen(
                words,
                env=environment(directory / f"{number}.events.jsonl"),
                pass_fds=(mine, other),
                stdout=subprocess.DEVNULL,
            )
        )
    for end in (end for pipe in pipes for end in pipe):
        os.close(end)
    codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit(f"a run ended with {codes}")
    times = [[float(t) for t in file.read_text().split()][WARM_UP_TURNS:] for file in files]
    return list(zip(*times, strict=True))


def ratio_of(pairs: list[Pair]) -> float:
    """The median over pairs of the median over turns."""
    return statistics.median(statistics.median(a / b for a, b in pair) for pair in pairs)


def interval(pairs: list[Pair]) -> tuple[float, float]:
    """The 95 % interval of the ratio, by drawing pairs and turns again."""
    draw = random.Random(1)
    ratios = sorted(
        ratio_of([draw.choices(pair, k=len(pair)) for pair in draw.choices(pairs, k=len(pairs))])
        for _ in range(2000)
    )
    return ratios[50], ratios[-51]


def compare(title: str, first: str, second: str, count: int, steps: int) -> tuple[float, float]:
    """Print the pairs of two entries; the ratio and the upper end of its interval."""
    pairs = []
    for number in range(count):
        with tempfile.TemporaryDirectory() as name:
            # Who begins changes from pair to pair.
            if number % 2:
                pair = [(a, b) for b, a in run_pair((second, first), steps, Path(name))]
            else:
                pair = run_pair((first, second), steps, Path(name))
        pairs.append(pair)
        ours, bare = (statistics.median(turn[i] for turn in pair) for i in (0, 1))
        print(
            f"{title}, pair {number + 1}: {ours:.1f} ms and {bare:.1f} ms a step, "
            f"ratio {ratio_of([pair]):.4f}",
            flush=True,
        )
        if min(ours, bare) < SHORTEST_STEP:
            raise SystemExit(f"a step takes less than {SHORTEST_STEP:.0f} ms: enlarge the model.")
    ratio, (low, high) = ratio_of(pairs), interval(pairs)
    print(f"{title}: median ratio {ratio:.4f}, 95 % interval {low:.4f} to {high:.4f}", flush=True)
    FIGURES.parent.mkdir(exist_ok=True)
    with FIGURES.open("a") as stream:
        row = [title, f"{ratio:.4f}", f"{low:.4f} to {high:.4f}"]
        stream.write(json.dumps({"table": "overhead", "row": row}) + "\n")
    return ratio, high


def main() -> int:
    """Compare the worker with the bare engine, then the bare engine with itself."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    ratio, high = compare("worker over bare", WORKER, BARE, count, steps)
    compare("bare over bare", BARE, BARE, count, steps)
    return 0 if ratio <= 1.01 and high <= 1.03 else 1


if __name__ == "__main__":
    sys.exit(main())
