# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The reference page of exit codes and exceptions."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

from docs.tools.reference.markdown import code, doc_of, docs_of, fenced, page, table
from seatrial import checkpoints, dataprep, runs
from seatrial.errors import ExitCode, SeatrialError

ERRORS = "seatrial.errors"
"""The module of the exceptions that every part may raise."""

INTRODUCTION = """\
Every command exits with one of these codes, so that a script can react without reading the
output."""

CLOSED = """\
With `--json`, errors are printed as JSON on standard output, `{"error": ..., "findings": [...]}`,
with the same exit code. If the reader of a pipe exits first, as in `seatrial schema | head -1`, the
command exits silently with 141, as other programs do. If the output cannot be written, for example
because the disk is full, the exit code is 2."""

SCRIPT = """\
seatrial validate run.yaml
case $? in
0) echo "valid" ;;
1) echo "fix the findings above" ;;
2) echo "wrong path or invalid command line" ;;
esac
"""


def exit_codes_page() -> str:
    docs = docs_of(ExitCode, [member.name for member in ExitCode])
    rows = [(code(member.value), member.name, docs[member.name]) for member in ExitCode]
    for package in (checkpoints, dataprep, runs):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            # Exceptions exist only once their module is imported.
            import_module(module.name)
    errors = list(_tree(SeatrialError))
    return page(
        "# Exit codes",
        INTRODUCTION,
        table(("code", "name", "meaning"), rows),
        CLOSED,
        fenced(SCRIPT, "bash"),
        "## Exceptions",
        "In Python, the same errors are exceptions. `exit_code` is the exit code that the CLI "
        "would return.",
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
    # The exceptions of the worker never leave its own processes.
    own = [
        e
        for e in error.__subclasses__()
        if e.__module__.startswith("seatrial.") and not e.__module__.startswith("seatrial.worker.")
    ]
    # Exceptions of the base module in their order there; the others by name.
    for below in sorted(own, key=lambda e: "" if e.__module__ == ERRORS else e.__name__):
        yield from _tree(below, depth + 1)
