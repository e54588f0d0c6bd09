# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measure how long the quickstart takes from an empty environment to the end of the rehearsal.

    python -m scripts.measure_quickstart [--write] [--wheels DIR]

Types what the page says: its installation with a home directory of its own, then its commands up
to the rehearsal. What an installation downloads is downloaded before, into DIR or a directory that
is removed, and its time is told beside the sum; what is in DIR is used again. Needs 12 GB of disk
for a while. With `--write` the table is written into the page. Ends with 1 when the sum is above
the limit.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

from scripts.count_flow import QUICKSTART, put
from scripts.page_blocks import ROOT, blocks_of
from scripts.refresh_console import commands_of, write_file

LIMIT = 300
"""Seconds that all of it may take, without downloads."""
BUILD = "hatchling"
"""What builds the package, which pip would download too."""
SECONDS = "seconds.txt"
"""Beside the packages: how long it took to download them."""
REQUIREMENT = re.compile(r"'(\.\[[^']+\])'")
WALK = "seatrial run run.yaml"


@dataclass(frozen=True, slots=True)
class Taken:
    """What a part took, in seconds."""

    clock: float
    """By the clock on the wall, which counts what else the machine does too."""
    processor: float
    """Of all cores together, which does not."""


class Shares(dict[str, Taken]):
    """What each part took."""

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Count the time of a part."""
        began, used = time.monotonic(), _processor()
        yield
        self[part] = Taken(time.monotonic() - began, _processor() - used)
        print(f"{part:<40} {self[part].clock:6.1f} s", flush=True)

    @property
    def whole(self) -> Taken:
        """All parts together."""
        return Taken(*(sum(times) for times in zip(*map(astuple, self.values()), strict=True)))


def _processor() -> float:
    """Seconds that the processes which this one has started and seen ending have computed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def installation() -> str:
    """What the page asks its reader to type first."""
    return next(block.text for block in blocks_of(QUICKSTART) if block.language == "bash")


def commands() -> list[str]:
    """What the page asks its reader to type after it, up to the whole way."""
    typed = [
        command
        for block in blocks_of(QUICKSTART)
        if block.language == "console"
        for _, command in commands_of(block.text)
    ]
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


def measured(home: Path, wheels: Path) -> Shares:
    """How long each part takes for somebody with that home directory."""
    shares = Shares()
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

    def type_in(command: str, directory: Path) -> None:
        subprocess.run(["bash", "-ec", command], cwd=directory, env=variables, check=True)

    with shares.of("an environment, and all packages"):
        type_in(installation(), ROOT)
    work = home / "work"
    work.mkdir()
    for block in blocks_of(QUICKSTART):
        if block.language.startswith("{code-block}"):
            write_file(block.text, work)
    with shares.of("the corpus, the tokenizer and the spec"):
        for command in commands():
            type_in(command, work)
    with shares.of("tokens, plan and checks"):
        type_in(f"{WALK} --until check", work)
    with shares.of("the rehearsal"):
        type_in(f"{WALK} --until rehearse", work)
    return shares


def table(shares: Shares, size: int, seconds: float, load: float) -> str:
    """What was measured, for the page."""
    rows = [f"| {part} | {t.clock:.0f} s | {t.processor:.0f} s |" for part, t in shares.items()]
    whole, aim = shares.whole, f"{LIMIT / 60:.0f} min are the aim"
    return "\n".join(
        [
            "| | took | of the processor |",
            "| --- | --- | --- |",
            *rows,
            f"| all | {whole.clock / 60:.1f} min; {aim} | {whole.processor / 60:.1f} min |",
            f"| not counted: {size / 1e9:.1f} GB to download | {seconds:.0f} s | |",
            f"| processes that wanted the {os.cpu_count()} cores when it began | {load:.0f} | |",
        ]
    )


def main() -> None:
    """Measure, print, and write where that is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--wheels", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="seatrial-quickstart-") as directory:
        wheels = (options.wheels or Path(directory) / "wheels").absolute()
        wheels.mkdir(parents=True, exist_ok=True)
        size, seconds = download(wheels)
        load = os.getloadavg()[0]
        home = Path(directory) / "home"
        home.mkdir()
        shares = measured(home, wheels)
    told = table(shares, size, seconds, load)
    print(told)
    if options.write:
        page = QUICKSTART.read_text(encoding="utf-8")
        QUICKSTART.write_text(put(page, "measured", told), encoding="utf-8")
    if shares.whole.clock > LIMIT:
        sys.exit(1)


if __name__ == "__main__":
    main()
