# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How soon a preparation has its first part committed, and what each of its phases takes.

    python scripts/measure_first_record.py RUN.YAML [--workers 1 2] [--rounds 3]

Prepares the data of a spec into a directory that is removed again, in a process of its own each
time. The best round counts: on a busy machine the others measure their neighbours.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

PHASES = ("listing", "choosing", "preparing", "assembling", "verifying")


def measure(spec: str, workers: int) -> dict[str, float]:
    """Seconds from the start of this process on; each phase's own, and until the first record."""
    began = time.monotonic()
    # The imports are part of what is measured.
    from seatrial.client import prepare_data  # noqa: PLC0415
    from seatrial.dataprep.progress import Progress  # noqa: PLC0415

    marks: dict[str, float] = {}

    def tell(progress: Progress) -> None:
        marks.setdefault(progress.phase, time.monotonic())
        if any(source.done for source in progress.sources.values()):
            marks.setdefault("first record", time.monotonic())

    with tempfile.TemporaryDirectory() as directory:
        outcome = prepare_data(spec, to=directory, workers=workers, tell=tell)
        end = time.monotonic()
    starts = [marks[phase] for phase in PHASES]
    spans = zip(PHASES, starts, [*starts[1:], end], strict=True)
    return {
        "imports": starts[0] - began,
        **{phase: after - start for phase, start, after in spans},
        "first record after start": marks["first record"] - began,
        "first record after preparing began": marks["first record"] - marks["preparing"],
        "CPU of all tasks": outcome.cpu_seconds,
        "all": end - began,
    }


def main() -> None:
    """Measure and print the best of some rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spec")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        print(json.dumps(measure(options.spec, options.workers[0])))
        return
    best = {}
    for workers in options.workers:
        command = [sys.executable, __file__, options.spec, "--once", "--workers", str(workers)]
        found = []
        for _ in range(options.rounds):
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            found.append(json.loads(done.stdout))
        best[workers] = {name: min(each[name] for each in found) for name in found[0]}
    print(f"best of {options.rounds}, seconds; load {os.getloadavg()[0]:.1f}")
    print(f"{'workers':<36}" + "".join(f"{workers:>8}" for workers in best))
    for name in best[options.workers[0]]:
        print(f"{name:<36}" + "".join(f"{each[name]:>8.2f}" for each in best.values()))


if __name__ == "__main__":
    main()
