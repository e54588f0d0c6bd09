# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One process of a run in a pod: `seatrial.worker`, with an exit code that tells the truth.

Asked to end by SIGTERM, the engine saves a checkpoint on all ranks and exits with 0
(`megatron/training/training.py`, checkpoint_and_decide_exit). To Kubernetes that is a job that has
succeeded: the eviction of one pod would end the run. A training that was finished returns; one that
was not exits, and gets a code here that makes the operator start it again.
"""

import sys

from seatrial.worker.process import UNFINISHED, spared_teardown
from seatrial.worker.supervisor.exit_records import telling_end

WANTED_ENDS = ("--exit-interval", "--exit-duration-in-mins")
"""Options by which a spec asks for an early end itself."""


def main() -> None:
    """Train; an early end is no success."""
    with telling_end():
        _train()


def _train() -> None:
    # Not before: see seatrial.worker.megatron.__main__ and spared_teardown.
    from seatrial.worker.megatron.lasting_managers import shield_managers  # noqa: PLC0415
    from seatrial.worker.megatron.run import main as train  # noqa: PLC0415

    shield_managers()
    try:
        train()
    except SystemExit as end:
        if end.code in (None, 0) and not set(WANTED_ENDS) & set(sys.argv):
            sys.stderr.write("seatrial: saved and ended before the last step.\n")
            sys.exit(UNFINISHED)
        raise


if __name__ == "__main__":
    with spared_teardown():
        main()
