# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Run a program that dies with its parent.

`python -m seatrial.worker.supervisor.parent_death PARENT ARGV`. A process's parent-death signal
survives exec. Setting the signal between fork and exec is not safe in a process with threads.
"""

import os
import sys

from seatrial.worker.process import end_with_parent


def main(parent: str, *argv: str) -> None:
    """Replace this process with the program."""
    end_with_parent(int(parent))
    os.execvp(argv[0], argv)  # noqa: S606  (our own argv, no shell)


if __name__ == "__main__":
    main(*sys.argv[1:])
