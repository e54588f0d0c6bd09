# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial` is the command `seatrial`."""

import sys
from typing import NoReturn

STOPPED = 130
"""What a shell reports of a program that Ctrl-C has ended (128 + SIGINT)."""


def main() -> NoReturn:
    """Load the command line and run it; Ctrl-C while it is loaded ends it in silence."""
    try:
        # Loaded here so that an interrupt meanwhile is caught.
        from seatrial.cli.main import main as run  # noqa: PLC0415
    except KeyboardInterrupt:
        sys.exit(STOPPED)
    run()


if __name__ == "__main__":
    main()
