# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Run the console blocks of the pages and write down what the commands print.

    python -m scripts.refresh_console

The blocks of a page are run in order in a fresh directory. A block whose caption is a file's name
is written to that file first. `seatrial` is started as a process of its own; of other commands
only `cat` is known. A test compares the pages with what this would write.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(?P<info>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
CAPTION = re.compile(r"^:caption: `?(?P<name>[^\n`]+?)`?\n\n?", re.MULTILINE)
ASSIGNMENT = re.compile(r"^([A-Z_]+)=(.*)$")


def pages() -> list[Path]:
    """The pages that have a block to run, by console or by doctest."""
    written = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in written if _infos(page) & {"console", "pycon"}]


def _infos(page: Path) -> set[str]:
    """The languages of a page's blocks."""
    return {match["info"].strip() for match in BLOCK.finditer(page.read_text(encoding="utf-8"))}


def refreshed(text: str, directory: Path) -> str:
    """The page with the output that its commands give in the directory."""

    def refresh(match: re.Match[str]) -> str:
        info, block = match["info"].strip(), match["text"]
        if info.startswith("{code-block}"):
            _write_file(block, directory)
        if info != "console":
            return match[0]
        parts = [f"$ {typed}\n{_run(command, directory)}" for typed, command in _commands(block)]
        return f"```console\n{''.join(parts)}```"

    return BLOCK.sub(refresh, text)


def _write_file(block: str, directory: Path) -> None:
    """A block with a caption is a file that the page asks its reader to write."""
    caption = CAPTION.search(block)
    if caption:
        file = directory / caption["name"]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(CAPTION.sub("", block, count=1), encoding="utf-8")


def _commands(block: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block as it is typed, and in one line."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        end = next(i for i, line in enumerate(lines) if not line.endswith("\\"))
        typed = lines[: end + 1]
        yield "\n".join(typed), " ".join(line.removesuffix("\\").strip() for line in typed)


def _run(command: str, directory: Path) -> str:
    """What a command prints, standard error included, without blanks at the ends of lines."""
    # Nothing of the user's own: no catalog, no colours, a width of 100 columns.
    variables = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONUNBUFFERED": "1",
        "PYTHONUTF8": "1",
        "COLUMNS": "100",
        "HOME": str(directory),
    }
    words = shlex.split(command)
    while match := ASSIGNMENT.match(words[0]):
        variables[match[1]] = match[2]
        del words[0]
    if words[0] == "cat":
        printed = "".join((directory / name).read_text(encoding="utf-8") for name in words[1:])
    elif words[0] == "seatrial":
        printed = subprocess.run(
            [sys.executable, "-m", "seatrial", *words[1:]],
            cwd=directory,
            env=variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            check=False,
            timeout=60,
        ).stdout
    else:
        raise SystemExit(f"a page runs {words[0]!r}; only seatrial and cat can be run.")
    return "".join(f"{line.rstrip()}\n" for line in printed.rstrip().splitlines())


def main() -> None:
    """Refresh every page."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as directory:
            new = refreshed(text, Path(directory))
        if new != text:
            page.write_text(new, encoding="utf-8")
            print(f"wrote {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
