# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One process of a run in a pod, with an exit code that tells an early end from a finished run."""

import sys

from seatrial.worker.process import UNFINISHED, spared_teardown
from seatrial.worker.supervisor.exit_records import telling_end


def main() -> None:
    """Train; an early end is no success."""
    from seatrial.worker.llm_foundry.run import main as train  # noqa: PLC0415  (see __main__)

    with telling_end():
        if not train():
            sys.stderr.write("seatrial: saved and ended before the last step.\n")
            sys.exit(UNFINISHED)


if __name__ == "__main__":
    with spared_teardown():
        main()
