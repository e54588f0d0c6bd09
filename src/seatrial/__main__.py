# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial` runs the `seatrial` command."""

import sys
from typing import NoReturn

STOPPED = 130
"""The exit code after Ctrl-C (128 + SIGINT)."""


def exit_with(code: int) -> NoReturn:
    """Exit with a code, also after a Ctrl-C that was handled.

    If Ctrl-C arrives while Python runs source text (as a library does to make a class), Python
    notes an unhandled interrupt and ends itself with SIGINT at the exit, even if the interrupt was
    handled. Running other source text clears the note.
    """
    eval("0")  # noqa: S307  (a constant)
    sys.exit(code)


def main() -> NoReturn:
    """Load and run the CLI. Ctrl-C while it loads exits silently."""
    try:
        # Imported here so that an interrupt is caught.
        from seatrial.cli.main import main as run  # noqa: PLC0415
    except KeyboardInterrupt:
        exit_with(STOPPED)
    run()


if __name__ == "__main__":
    main()
