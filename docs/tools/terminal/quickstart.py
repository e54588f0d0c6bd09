# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Record the quickstart with the real engine, and draw the recording as an animation.

    python -m docs.tools.terminal.quickstart [--draw]

Types the commands of the page that change something, in a directory of its own; needs the worker's
environment (SEATRIAL_WORKER_PYTHON) and some minutes. Writes the lines with their times to
docs/figures/quickstart.jsonl, and docs/figures/quickstart-light.svg and quickstart-dark.svg from
them. With --draw only the pictures are made.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from docs.tools.page_blocks import blocks_of
from docs.tools.page_parts import QUICKSTART, ROOT
from docs.tools.refresh_console import commands_of, environment_of
from docs.tools.terminal.draw import THEMES, Line, replay
from docs.tools.terminal.record import recorded
from docs.tools.tutorial.walk import QUICKSTART_PLACE, WORKER, walking

COLUMNS, ROWS = 96, 30
RECORDING = ROOT / "docs/figures/quickstart.jsonl"
LOOKING = ("cat", "ls", "seatrial checkpoints list")
"""Commands of the page that are left out: they only show what is there."""


def typed_commands() -> Iterator[tuple[str, str]]:
    """The commands of the page, as they are typed and in one line."""
    for block in blocks_of(QUICKSTART):
        if block.language == "console":
            yield from (c for c in commands_of(block.text) if not c[1].startswith(LOOKING))


def record() -> list[Line]:
    """What somebody sees who types the commands of the page."""
    lines: list[Line] = []
    with walking(QUICKSTART_PLACE, "stories-260k") as walk:
        walk.write_files(QUICKSTART)
        programs = walk.directory / ".bin"
        _write_programs(programs)
        variables = environment_of(walk.directory) | {WORKER: os.environ[WORKER]}
        variables["PATH"] = f"{programs}:{variables['PATH']}"
        for typed, command in typed_commands():
            began = lines[-1].seconds if lines else 0.0
            shown = [Line(began, one, number == 0) for number, one in enumerate(typed.splitlines())]
            printed = recorded(["bash", "-c", command], walk.directory, variables, COLUMNS)
            lines += shown
            lines += [
                Line(began + line.seconds, line.text.replace(str(walk.directory), walk.place))
                for line in printed
            ]
            lines.append(Line(lines[-1].seconds, ""))
    return lines[:-1]


def _write_programs(directory: Path) -> None:
    """`seatrial` and `python` of the reader's one environment, which are two here."""
    directory.mkdir()
    for name, program in {
        "seatrial": f"{sys.executable} -m seatrial",
        "python": os.environ[WORKER],
    }.items():
        file = directory / name
        file.write_text(f'#!/bin/sh\nexec {program} "$@"\n', encoding="utf-8")
        file.chmod(0o755)


def save(lines: list[Line]) -> None:
    rows = [[round(line.seconds, 2), line.text, line.is_command] for line in lines]
    RECORDING.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def saved() -> list[Line]:
    rows = RECORDING.read_text(encoding="utf-8").splitlines()
    return [Line(*json.loads(row)) for row in rows]


def main() -> None:
    if "--draw" not in sys.argv[1:]:
        save(record())
    lines = saved()
    minutes = lines[-1].seconds / 60
    title = "Seatrial quickstart, waits shortened"
    for theme in THEMES:
        file = ROOT / f"docs/figures/quickstart-{theme.name}.svg"
        file.write_text(replay(lines, COLUMNS, ROWS, title, theme), encoding="utf-8")
        print(f"wrote {file.relative_to(ROOT)}: {len(lines)} lines, {minutes:.1f} min")


if __name__ == "__main__":
    main()
