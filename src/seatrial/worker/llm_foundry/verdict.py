# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""LLM Foundry's verdict on a plan's settings: `python -m seatrial.worker.llm_foundry.verdict`.

`WORLD_SIZE` in the environment is the real number of ranks. Prints one line of JSON.
"""

import sys

from seatrial.worker.environment import set_variables
from seatrial.worker.llm_foundry.run import ENVIRONMENT

if __name__ == "__main__":
    set_variables(unless_set=ENVIRONMENT)
    from seatrial.worker.llm_foundry.engine_model import print_verdict

    print_verdict(sys.argv[1:])
