# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measure how long `seatrial check` takes for every recipe, from start to end of the command.

    python scripts/measure_check.py [ROUNDS]

The time is the processor's: a static check waits for nothing else, and on a busy machine the clock
on the wall would count other processes too. The best of all rounds counts. Ends with 1 when a
recipe takes longer than the limit.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from seatrial.recipes.shipped import recipe, recipe_names

ROUNDS = 3
LIMIT = 1.0
"""Seconds."""


def main() -> None:
    """Print a line a recipe, and whether all are below the limit."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    # A copy, so that no plan is kept beside a recipe, and bytecode where it may be written.
    with tempfile.TemporaryDirectory() as folder:
        worst = max(_best(name, Path(folder), rounds) for name in recipe_names())
    sys.stdout.write(f"slowest {worst:.2f} s, limit {LIMIT:.0f} s\n")
    if worst > LIMIT:
        raise SystemExit(1)


def _best(name: str, folder: Path, rounds: int) -> float:
    """The processor time of checking one recipe."""
    file = folder / f"{name}.yaml"
    file.write_text(recipe(name).text)
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    best = float("inf")
    for _ in range(rounds + 1):
        # The first round only compiles.
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = (sys.executable, "-m", "seatrial", "check", str(file))
        done = subprocess.run(command, env=environment, capture_output=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            sys.stdout.write(done.stdout.decode() + done.stderr.decode())
            raise SystemExit(f"{name}: exit code {done.returncode}")
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        best = min(best, used)
    sys.stdout.write(f"{name:<28} {best:5.2f} s\n")
    return best


if __name__ == "__main__":
    main()
