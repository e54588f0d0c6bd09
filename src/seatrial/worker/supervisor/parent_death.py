# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial.worker.supervisor.parent_death PARENT ARGV`: a program ends with its parent.

What is asked of the system for this process stays when another program takes its place. Between
fork and exec of a process with threads it could not be asked for safely.
"""

import os
import sys

from seatrial.worker.process import end_with_parent


def main(parent: str, *words: str) -> None:
    """Become the program."""
    end_with_parent(int(parent))
    os.execvp(words[0], words)  # noqa: S606  (our own words, no shell)


if __name__ == "__main__":
    main(*sys.argv[1:])
