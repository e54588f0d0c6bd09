# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial` runs the `seatrial` command."""

import gc
import sys
from typing import NoReturn

STOPPED = 130
"""The exit code after Ctrl-C (128 + SIGINT)."""


def main() -> NoReturn:
    """Load and run the CLI. Ctrl-C while it loads exits silently."""
    # Objects made at start-up live until the end: collecting garbage costs 7 % of `validate`.
    gc.set_threshold(200_000)
    try:
        # Imported here so that an interrupt is caught.
        from seatrial.cli.main import main as run  # noqa: PLC0415
    except KeyboardInterrupt:
        # See seatrial.errors.exit_with, which may not be loaded.
        eval("0")  # noqa: S307  (a constant)
        sys.exit(STOPPED)
    run()


if __name__ == "__main__":
    main()
