# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Run the console blocks of the pages and write down what the commands print.

    python -m docs.tools.refresh_console [PAGE ...]

The blocks of a page are run in order in a fresh directory. A block whose caption is a file's name
is written to that file first. `seatrial` is started as a process of its own; of other commands
only `cat` is known. A command that fails ends everything, unless its block says so. A test compares
the pages with what this would write.

A comment directly above a block says otherwise:

    <!-- stand-in cluster: SCENE -->   the commands ask an API server in memory
                                       (tests/unit/docs/stand_in_cluster.py)
    <!-- manifest: ... -->             the block is an excerpt (docs/tools/manifest_excerpts.py)
    <!-- edit: FILE -->                each line is a field of the spec and its new value
    <!-- run -->                       a shell block that is run; only its exit code counts
    <!-- executed by: TEST -->         a test runs such commands; the block is left as it is
    <!-- not executed: REASON -->      nothing can run it here; the block is left as it is
    <!-- compared, exit 1 -->          a console block whose last command ends with 1; `exit 1 2` is
                                       for the last two; `executed by` may end so too
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from docs.tools.manifest_excerpts import excerpt
from docs.tools.page_blocks import BLOCK, all_pages, blocks_of, hold_to_exit_codes, marker_before
from docs.tools.page_parts import ROOT
from seatrial.checks.repairs.yaml_edits import applied

CAPTION = re.compile(r"^:caption: `?(?P<name>[^\n`]+?)`?\n\n?", re.MULTILINE)
ASSIGNMENT = re.compile(r"^([A-Z_]+)=(.*)$")
LIMIT = 300
"""Seconds that a command may take; on an idle machine each takes one or two."""
LEFT_ALONE = frozenset(("executed by", "not executed"))
"""Markers of blocks that are not touched."""


def pages() -> list[Path]:
    """The pages that have a block to run or to write, by console, by shell or by doctest."""
    return [
        page
        for page in all_pages()
        if any(
            block.language in ("console", "pycon")
            or (block.marker is not None and block.marker.kind in ("run", "manifest"))
            for block in blocks_of(page)
        )
    ]


def refreshed(text: str, directory: Path) -> str:
    """The page with the output that its commands give in the directory."""

    def refresh(match: re.Match[str]) -> str:
        info, block = match["info"].strip(), match["text"]
        marker = marker_before(text[: match.start()])
        kind, value = (marker.kind, marker.value) if marker else ("", "")
        if kind in LEFT_ALONE:
            return match[0]
        if info.startswith("{code-block}"):
            write_file(block, directory)
        if kind == "manifest":
            return f"```{info}\n{excerpt(value).text}```"
        if kind == "run":
            printed, code = run_bash(f"set -eu\n{block}", directory, {}, LIMIT)
            if code != 0:
                raise SystemExit(f"a shell block ended with {code}:\n{block}\n{printed}")
        if kind == "edit":
            _edit(directory / value, block)
        if info != "console":
            return match[0]
        scene = value if kind == "stand-in cluster" else ""
        commands = list(commands_of(block))
        done = [_run(command, directory, scene) for _, command in commands]
        hold_to_exit_codes(marker, [typed for typed, _ in commands], [code for _, code in done])
        return console([typed for typed, _ in commands], [printed for printed, _ in done])

    return BLOCK.sub(refresh, text)


def console(typed: list[str], printed: list[str]) -> str:
    """A block with commands and what they have printed."""
    parts = [f"$ {one}\n{answer}" for one, answer in zip(typed, printed, strict=True)]
    return f"```console\n{''.join(parts)}```"


def write_file(block: str, directory: Path) -> None:
    """A block with a caption is a file that the page asks its reader to write."""
    caption = CAPTION.search(block)
    if caption:
        file = directory / caption["name"]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(CAPTION.sub("", block, count=1), encoding="utf-8")


def _edit(file: Path, block: str) -> None:
    """Change a spec as its reader would, in an editor: a field and its value on each line."""
    changes = ["=".join(line.strip().split(None, 1)) for line in block.splitlines()]
    file.write_text(applied(file.read_text(encoding="utf-8"), changes), encoding="utf-8")


def commands_of(block: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block as it is typed, and in one line."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        end = next(i for i, line in enumerate(lines) if not line.endswith("\\"))
        typed = lines[: end + 1]
        yield "\n".join(typed), " ".join(line.removesuffix("\\").strip() for line in typed)


def environment_of(directory: Path) -> dict[str, str]:
    """Nothing of the user's own: no catalog, no colours, a width of 100 columns."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
        "PYTHONUNBUFFERED": "1",
        "PYTHONUTF8": "1",
        "COLUMNS": "100",
        "HOME": str(directory),
    }


def run_bash(
    text: str, directory: Path, variables: dict[str, str], limit: float
) -> tuple[str, int]:
    """Run text in bash with `seatrial` and `python` of this checkout: its output and exit code."""
    functions = (
        f'seatrial() {{ "{sys.executable}" -m seatrial "$@"; }}\n'
        f'python() {{ "{sys.executable}" "$@"; }}\n'
    )
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", functions + text],
        cwd=directory,
        env=environment_of(directory) | variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
        timeout=limit,
    )
    return done.stdout, done.returncode


def _run(command: str, directory: Path, scene: str = "") -> tuple[str, int]:
    """What a command prints, standard error included, and its exit code.

    `scene` is what is going on in a stand-in for a cluster; empty without one.
    """
    variables = environment_of(directory)
    module = ["tests.unit.docs.stand_in_cluster", scene] if scene else ["seatrial"]
    words = shlex.split(command)
    while match := ASSIGNMENT.match(words[0]):
        variables[match[1]] = match[2]
        del words[0]
    code = 0
    if words[0] == "cat":
        printed = "".join((directory / name).read_text(encoding="utf-8") for name in words[1:])
    elif words[0] == "seatrial":
        done = subprocess.run(
            [sys.executable, "-m", *module, *words[1:]],
            cwd=directory,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
            timeout=LIMIT,
        )
        printed, code = done.stdout, done.returncode
    else:
        raise SystemExit(f"a page runs {words[0]!r}; only seatrial and cat can be run.")
    # Blanks at the ends of lines are nothing that a reader sees.
    return "".join(f"{line.rstrip()}\n" for line in printed.rstrip().splitlines()), code


def main() -> None:
    for page in [Path(name).resolve() for name in sys.argv[1:]] or pages():
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as directory:
            new = refreshed(text, Path(directory))
        if new != text:
            page.write_text(new, encoding="utf-8")
            print(f"wrote {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
