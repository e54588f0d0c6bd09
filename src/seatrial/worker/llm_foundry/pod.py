# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m seatrial.worker.llm_foundry.pod NAME=VALUE...`: one process of a run in a pod.

Like `__main__`, this module does nothing in processes that import it again.
"""

if __name__ == "__main__":
    import sys

    from seatrial.worker.process import spared_teardown

    with spared_teardown():
        from seatrial.worker.llm_foundry.run import main_in_pod

        main_in_pod(sys.argv[1:])
