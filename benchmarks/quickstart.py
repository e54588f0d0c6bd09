# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measure how long the quickstart takes from an empty environment to the end of the rehearsal.

    python -m benchmarks.quickstart [--write] [--wheels DIR]

Types what the page says: its installation with a home directory of its own, then its commands up
to the rehearsal. What an installation downloads is downloaded before, into DIR or a directory that
is removed, and its time is told beside the sum; what is in DIR is used again. Needs 12 GB of disk
for a while. With `--write` the table is written into the page. Ends with 1 when the sum is above
the limit.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measured import Run, measure
from docs.tools.page_blocks import blocks_of
from docs.tools.page_parts import QUICKSTART, ROOT, put, table
from docs.tools.refresh_console import commands_of, write_file

LIMIT = 300
"""Seconds that all of it may take, without downloads."""
BUILD = "hatchling"
"""What builds the package, which pip would download too."""
SECONDS = "seconds.txt"
"""Beside the packages: how long it took to download them."""
REQUIREMENT = re.compile(r"'(\.\[[^']+\])'")
WALK = "seatrial run run.yaml"


def installation() -> str:
    """What the page asks its reader to type first."""
    return next(block.text for block in blocks_of(QUICKSTART) if block.language == "bash")


def commands() -> list[str]:
    """What the page asks its reader to type after it, up to the whole way."""
    blocks = [block for block in blocks_of(QUICKSTART) if block.language == "console"]
    typed = [command for block in blocks for _, command in commands_of(block.text)]
    return typed[: typed.index(WALK)]


def download(wheels: Path) -> tuple[int, float]:
    """Bring what an installation needs: how many bytes that is, and how many seconds it took."""
    found, kept = REQUIREMENT.search(installation()), wheels / SECONDS
    if found is None:
        raise SystemExit("the quickstart installs no extras.")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(wheels)]
    if not kept.exists():
        began = time.monotonic()
        subprocess.run([*command, found[1], BUILD], cwd=ROOT, check=True)
        kept.write_text(f"{time.monotonic() - began:.0f}\n")
    return sum(file.stat().st_size for file in wheels.iterdir()), float(kept.read_text())


def measured(home: Path, wheels: Path) -> dict[str, Run]:
    """How long each part takes for somebody with that home directory."""
    work = home / "work"
    work.mkdir(parents=True)
    for block in blocks_of(QUICKSTART):
        if block.language.startswith("{code-block}"):
            write_file(block.text, work)
    variables = {
        # The interpreter that environments are made from, which has no packages.
        "PATH": f"{home}/seatrial/bin:{sys.base_prefix}/bin:/usr/bin:/bin",
        "HOME": str(home),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_QUIET": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "COLUMNS": "80",
    }
    environment = ["env", "-i", *(f"{name}={value}" for name, value in variables.items())]
    parts = {
        "an environment, and all packages": (installation(), ROOT),
        "the corpus, the tokenizer and the spec": ("\n".join(commands()), work),
        "tokens, plan and checks": (f"{WALK} --until check", work),
        "the rehearsal": (f"{WALK} --until rehearse", work),
    }
    found = {}
    for name, (typed, directory) in parts.items():
        found[name] = measure([*environment, "bash", "-ec", typed], cwd=directory)
        print(f"{name:<40} {found[name].wall:6.1f} s", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--wheels", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="seatrial-quickstart-") as directory:
        wheels = (options.wheels or Path(directory) / "wheels").absolute()
        wheels.mkdir(parents=True, exist_ok=True)
        size, seconds = download(wheels)
        load = os.getloadavg()[0]
        runs = measured(Path(directory) / "home", wheels)
    wall, cpu = sum(run.wall for run in runs.values()), sum(run.cpu for run in runs.values())
    rows = [(name, f"{run.wall:.0f} s", f"{run.cpu:.0f} s") for name, run in runs.items()]
    rows += [
        ("all", f"{wall / 60:.1f} min (target: {LIMIT / 60:.0f} min)", f"{cpu / 60:.1f} min"),
        (f"download of {size / 1e9:.1f} GB, not included", f"{seconds:.0f} s", ""),
        (f"runnable processes at the start (load), on {os.cpu_count()} cores", f"{load:.0f}", ""),
    ]
    told = table(("", "wall time", "CPU time"), rows)
    print(told)
    if options.write:
        put(QUICKSTART, {"measured": told})
    sys.exit(wall > LIMIT)


if __name__ == "__main__":
    main()
