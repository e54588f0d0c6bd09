# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Walk through pages as their reader does: write their files, run their commands, in their order.

    python -m docs.tools.tutorial.walk [tutorial|quickstart] [--write]

Takes minutes, and the worker's environment (SEATRIAL_WORKER_PYTHON). Prints what a page shows and
its commands no longer print; with `--write` such pages are written anew. A command that fails ends
the walk, unless its block says so (`docs.tools.refresh_console`). The pages speak of /tmp/tutorial
or /tmp/seatrial; the walk takes place in a directory of its own, which is removed at the end.
"""

import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from docs.tools.page_blocks import BLOCK, hold_to_exit_codes, marker_before
from docs.tools.page_parts import QUICKSTART, ROOT, put, table
from docs.tools.refresh_console import commands_of, console, run_bash, write_file
from docs.tools.tutorial.comparing import difference, without_progress

DIRECTORY = ROOT / "docs/tutorial"
DATA_PAGE = DIRECTORY / "data.md"
INDEX = DIRECTORY / "index.md"
PAGES = tuple(
    DIRECTORY / f"{name}.md"
    for name in ("data", "parallelism", "training", "checkpoints", "export")
)
QUICK = "tests/unit/docs/test_tutorial.py"
"""The test that runs what needs no engine."""
WALKERS = (QUICK, "tests/engine/test_tutorial.py", "tests/engine/test_quickstart.py")
"""The tests that walk; the marker of a block that is run here names one of them."""
PLACE = "/tmp/tutorial"  # noqa: S108  (what the reader is told)
QUICKSTART_PLACE = "/tmp/seatrial"  # noqa: S108
RUN = "dinghy"
WORKER = "SEATRIAL_WORKER_PYTHON"
LIMIT = 1800
"""Seconds that a command may take; most take some."""
READER_GONE = 141
"""How the first command of a pipe ends when the one behind it, such as `head`, has seen enough."""


def _worker() -> dict[str, str]:
    """The variable that names the engine's Python, where it is set."""
    return {name: os.environ[name] for name in (WORKER,) if name in os.environ}


@dataclass
class Walk:
    """A walk through pages in a directory."""

    directory: Path
    place: str = PLACE
    run: str = RUN
    """The run that a walk may leave behind."""
    seconds: dict[str, float] = field(default_factory=dict)
    _variables: dict[str, str] = field(default_factory=_worker)

    def through(self, page: Path, walkers: tuple[str, ...] = WALKERS) -> str:
        """The page with what its commands printed; only those that these walkers run."""
        # The first chapter needs no engine, and is walked through where there is none.
        has_engine = page != DATA_PAGE and walkers == WALKERS
        self._variables = _worker() if has_engine else {}
        began = time.monotonic()
        walked = self.through_text(page.read_text(encoding="utf-8"), walkers)
        self.seconds[page.stem] = time.monotonic() - began
        return walked

    def through_text(self, text: str, walkers: tuple[str, ...] = WALKERS) -> str:
        """The text of a page with what its commands printed."""

        def walk(match: re.Match[str]) -> str:
            marker = marker_before(text[: match.start()])
            info = match["info"].strip()
            if info.startswith("{code-block}"):
                write_file(self._here(match["text"]), self.directory)
            if info != "console" or marker is None or marker.value not in walkers:
                return match[0]
            commands = [typed for typed, _ in commands_of(match["text"])]
            done = [self._run(typed) for typed in commands]
            hold_to_exit_codes(marker, commands, [code for _, code in done])
            return console(commands, [printed for printed, _ in done])

        return BLOCK.sub(walk, text)

    def write_files(self, page: Path) -> None:
        """Only the files that a page asks its reader to write."""
        for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
            if match["info"].strip().startswith("{code-block}"):
                write_file(self._here(match["text"]), self.directory)

    def _here(self, text: str) -> str:
        """A text of the pages with the walk's own directory."""
        return text.replace(self.place, str(self.directory))

    def _run(self, typed: str) -> tuple[str, int]:
        """What a command prints, standard error included, and its exit code."""
        # Processes that are killed leave temporary files, which go with the walk's directory.
        temporary = self.directory / ".tmp"
        temporary.mkdir(exist_ok=True)
        variables = self._variables | {"TMPDIR": str(temporary)}
        text = self._here(typed)
        if self.place == QUICKSTART_PLACE and WORKER in variables:
            # Its reader has one environment for everything, with the engine.
            text = f'python() {{ "${WORKER}" "$@"; }}\n{text}'
        printed, code = run_bash(text, self.directory, variables, LIMIT)
        shown = without_progress(printed).replace(str(self.directory), self.place)
        return shown, 0 if code == READER_GONE else code

    def end(self) -> None:
        """Leave no run behind, wherever the walk has ended."""
        self._run(f"seatrial stop {self.run}")


@contextmanager
def walking(place: str = PLACE, run: str = RUN) -> Iterator[Walk]:
    """A walk in a new directory whose path is as long as that of the pages."""
    # A name of eight letters, so that lines break where they do for the reader.
    walk = Walk(Path(tempfile.mkdtemp(prefix="", dir=Path(place).parent)), place, run)
    try:
        yield walk
    finally:
        walk.end()
        shutil.rmtree(walk.directory, ignore_errors=True)


def times_table(seconds: dict[str, float]) -> str:
    """How long the chapters took, as a table."""
    rows = [(f"[{name}]({name}.md)", f"{taken / 60:.1f} min") for name, taken in seconds.items()]
    whole = ("all", f"{sum(seconds.values()) / 60:.1f} min")
    return table(("chapter", "its commands took"), [*rows, whole])


def main() -> None:
    is_writing, found = "--write" in sys.argv[1:], 0
    is_tutorial = "quickstart" not in sys.argv[1:]
    place, run = (PLACE, RUN) if is_tutorial else (QUICKSTART_PLACE, "stories-260k")
    with walking(place, run) as walk:
        for page in PAGES if is_tutorial else (QUICKSTART,):
            shown, printed = page.read_text(encoding="utf-8"), walk.through(page)
            told = difference(shown, printed)
            found += bool(told)
            print(f"{page.name}: {walk.seconds[page.stem]:.0f} s\n{told}", flush=True)
            if is_writing and told:
                page.write_text(printed, encoding="utf-8")
    if is_writing and is_tutorial:
        put(INDEX, {"times": times_table(walk.seconds)})
    elif found and not is_writing:
        sys.exit(1)


if __name__ == "__main__":
    main()
