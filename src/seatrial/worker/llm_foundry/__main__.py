# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial.worker.llm_foundry NAME=VALUE...`: one process of a run, under torchrun.

Data loaders may import this module again in their own processes; there it does nothing.
"""

if __name__ == "__main__":
    import sys

    from seatrial.worker.process import spared_teardown

    with spared_teardown():
        from seatrial.worker.llm_foundry.run import main

        main(sys.argv[1:])
