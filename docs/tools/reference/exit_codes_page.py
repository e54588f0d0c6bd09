# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The page of exit codes and of the exceptions behind them."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

from docs.tools.reference.markdown import code, doc_of, docs_of, fenced, page, table
from seatrial import checkpoints, dataprep, runs
from seatrial.errors import ExitCode, SeatrialError

ERRORS = "seatrial.errors"
"""Where the exceptions are that every part may raise."""

INTRODUCTION = """\
Every command ends with one of these codes, so that a script can tell what happened without reading
the output."""

CLOSED = """\
With `--json`, what went wrong is JSON on standard output too, `{"error": ..., "findings": [...]}`,
and the code is the same. A command whose reader has gone, as in `seatrial schema | head -1`, ends
quietly with 141, as programs do in a shell; an output that cannot be written, as on a full disk, is
a 2."""

SCRIPT = """\
seatrial validate run.yaml
case $? in
0) echo "valid" ;;
1) echo "mend the findings above" ;;
2) echo "wrong path or wrong usage" ;;
esac
"""


def exit_codes_page() -> str:
    docs = docs_of(ExitCode, [member.name for member in ExitCode])
    rows = [(code(member.value), member.name, docs[member.name]) for member in ExitCode]
    for package in (checkpoints, dataprep, runs):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            # What nobody has imported yet has no exceptions.
            import_module(module.name)
    errors = list(_tree(SeatrialError))
    return page(
        "# Exit codes",
        INTRODUCTION,
        table(("code", "name", "meaning"), rows),
        CLOSED,
        fenced(SCRIPT, "bash"),
        "## Exceptions",
        "In Python, the same failures are exceptions. Each has the exit code that the command line "
        "would end with, as `exit_code`.",
        fenced("\n".join(f"{i + error.__name__:<30}{error.exit_code:>3}" for i, error in errors)),
        table(
            ("exception", "exit code", "meaning"),
            [
                (code(error.__name__), str(int(error.exit_code)), doc_of(error))
                for _, error in errors
            ],
        ),
    )


def _tree(error: type[SeatrialError], depth: int = 0) -> Iterator[tuple[str, type[SeatrialError]]]:
    """An exception and those derived from it, each with its indentation."""
    yield "    " * depth, error
    # What the worker raises ends one of its own processes, and nobody imports it.
    own = [
        e
        for e in error.__subclasses__()
        if e.__module__.startswith("seatrial.") and not e.__module__.startswith("seatrial.worker.")
    ]
    # Those of the base in the order in which they stand there; the others as a dictionary has them.
    for below in sorted(own, key=lambda e: "" if e.__module__ == ERRORS else e.__name__):
        yield from _tree(below, depth + 1)
