# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial.worker.megatron ENGINE-ARGUMENTS`: one process of a run, started by torchrun.

The engine writes checkpoints through helper processes that import this module again. There it does
nothing, so that they do not load torch and the engine.
"""

if __name__ == "__main__":
    import sys

    from seatrial.worker.process import spared_teardown

    with spared_teardown():
        from seatrial.worker.megatron.run import main

        main(sys.argv[1:])
