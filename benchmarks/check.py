# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How long `seatrial check` takes: static for every recipe, and with the engine.

    python -m benchmarks.check [--engine] [--write]

A time is that of the whole command in a process of its own, the shorter of two. It is the
processor's: a check waits for nothing else, and on a busy machine the clock on the wall would count
other processes too. Modules are compiled beforehand, as pip does when it installs. `--engine` asks
the engine about every Megatron recipe, once (SEATRIAL_WORKER_PYTHON). `--write` puts the figures
into docs/check-figures.md. Ends with 1 when a bar is missed.
"""

import os
import platform
import sys
from argparse import ArgumentParser
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.measured import measure_here
from docs.tools.page_parts import ROOT, part, put, table
from seatrial.errors import ExitCode
from seatrial.recipes.shipped import recipe, recipe_names

TIMES = 2
STATIC_BAR = 1.0
"""Seconds that a static check may take."""
ENGINE_BAR = 30.0
"""Seconds that the check with the engine may take."""
PAGE = ROOT / "docs/check-figures.md"
HEAD = ("what", "recipes", "median", "longest", "limit", "on")


def main() -> int:
    parser = ArgumentParser(description="Measure how long the check takes.")
    parser.add_argument("--engine", action="store_true")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    with TemporaryDirectory(prefix="seatrial-measured-") as directory:
        place = Path(directory)
        for name in recipe_names():
            (place / f"{name}.yaml").write_text(recipe(name).text, encoding="utf-8")
        seconds(recipe_names()[0], place)
        rows, held = [], True
        if given.engine:
            engine = "megatron"
            names = [name for name in recipe_names() if recipe(name).spec.engine.name == engine]
            asked = {name: seconds(name, place, "--engine") for name in names}
            rows.append(_row("with the engine, every Megatron recipe", asked, ENGINE_BAR))
            held = max(asked.values()) < ENGINE_BAR
        static = {name: min(seconds(name, place) for _ in range(TIMES)) for name in recipe_names()}
    rows.append(_row("static check, every recipe", static, STATIC_BAR))
    for row in rows:
        sys.stdout.write("  ".join(row) + "\n")
    if given.write:
        kept = [line.strip("| ").split(" | ") for line in part(PAGE, "times").splitlines()[2:]]
        both = {row[0]: tuple(row) for row in (*kept, *rows)}
        put(PAGE, {"times": table(HEAD, both.values())})
    return 0 if held and max(static.values()) < STATIC_BAR else 1


def seconds(name: str, place: Path, *options: str) -> float:
    """The processor time that the command takes for a recipe."""
    argv = [sys.executable, "-m", "seatrial", "check", f"{name}.yaml", *options]
    return measure_here(argv, place, (ExitCode.OK, ExitCode.FINDINGS)).cpu


def _row(what: str, times: dict[str, float], bar: float) -> tuple[str, ...]:
    longest = max(times, key=lambda name: times[name])
    return (
        what,
        str(len(times)),
        f"{median(times.values()):.2f} s",
        f"{times[longest]:.2f} s ({longest})",
        f"{bar:g} s",
        f"{os.cpu_count()} cores, {platform.machine()}",
    )


if __name__ == "__main__":
    sys.exit(main())
