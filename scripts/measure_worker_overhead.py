# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measure what the worker costs over the engine bare: step times of alternated pairs of runs.

    SEATRIAL_WORKER_PYTHON=... python scripts/measure_worker_overhead.py [PAIRS] [STEPS]

Both read their step times off the engine's own log. The bar: a median ratio of at most 1.01 whose
95 % interval (bootstrap over steps, paired by run) ends at 1.03 or below. Ends with 1 above it.
"""

import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from seatrial.engines.megatron.cpu import CPU_ARGUMENTS
from seatrial.engines.megatron.flags import command_line
from seatrial.rehearsal.worker_process import worker_python

ROOT = Path(__file__).parents[1]
LINE = re.compile(r"elapsed time per iteration \(ms\): ([\d.]+)")
WARM_UP = 20
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


def step_times(entry: list[str], steps: int, directory: Path) -> list[float]:
    """The milliseconds of each step after the warm-up."""
    words = [worker_python(), *entry, *command_line({**MODEL, "train-iters": steps})]
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONWARNINGS": "ignore",
        "SEATRIAL_DEVICE": "cpu",
        "SEATRIAL_EVENTS": str(directory / "events.jsonl"),
        "OMP_NUM_THREADS": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "CUDA_DEVICE_MAX_CONNECTIONS": "1",
        "WORLD_SIZE": "1",
        "RANK": "0",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(20000 + random.randrange(20000)),
    }
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    times = [float(match) for match in LINE.findall(done.stdout)]
    return times[WARM_UP:]


def interval(pairs: list[tuple[list[float], list[float]]]) -> tuple[float, float, float]:
    """The median ratio over pairs, and its 95 % interval by resampling steps and pairs."""
    draw = random.Random(1)
    ratios = []
    for _ in range(2000):
        chosen = [draw.choice(pairs) for _ in pairs]
        sample = [
            statistics.median(draw.choices(ours, k=len(ours)))
            / statistics.median(draw.choices(bare, k=len(bare)))
            for ours, bare in chosen
        ]
        ratios.append(statistics.median(sample))
    ratios.sort()
    plain = statistics.median(
        statistics.median(ours) / statistics.median(bare) for ours, bare in pairs
    )
    return plain, ratios[50], ratios[-51]


def main() -> int:
    """Print the ratio of every pair, the median and its interval."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    entries = {
        "worker": ["-m", "seatrial.worker"],
        "bare": [str(ROOT / "scripts/overhead/bare.py")],
    }
    pairs = []
    with tempfile.TemporaryDirectory() as name:
        for number in range(count):
            order = list(entries) if number % 2 else list(entries)[::-1]
            times = {e: step_times(entries[e], steps + WARM_UP, Path(name)) for e in order}
            pairs.append((times["worker"], times["bare"]))
            ours, bare = (statistics.median(times[e]) for e in ("worker", "bare"))
            print(f"pair {number + 1}: worker {ours:.1f} ms, bare {bare:.1f} ms, {ours / bare:.4f}")
    ratio, low, high = interval(pairs)
    print(f"median ratio {ratio:.4f}, 95 % interval {low:.4f} to {high:.4f} (bar 1.01, 1.03)")
    return 0 if ratio <= 1.01 and high <= 1.03 else 1


if __name__ == "__main__":
    sys.exit(main())
