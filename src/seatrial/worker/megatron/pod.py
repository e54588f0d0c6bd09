# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial.worker.megatron.pod ENGINE-ARGUMENTS`: one process of a run in a pod.

Like `__main__`, this module does nothing in helper processes that import it again.
"""

if __name__ == "__main__":
    import sys

    from seatrial.worker.process import spared_teardown

    with spared_teardown():
        from seatrial.worker.megatron.run import main_in_pod

        main_in_pod(sys.argv[1:])
