# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine's verdict on a full layout: `python -m seatrial.worker.megatron.verdict`.

Arguments: `--stages` with the numbers of the stages to build, and the production arguments without
the tokenizer, which validation would otherwise load. `WORLD_SIZE` in the environment is the real
number of ranks. Prints one line of JSON.
"""

import sys

from seatrial.worker.megatron.cpu.start import start_on_cpu

if __name__ == "__main__":
    start_on_cpu(sys.argv[1:])
    from seatrial.worker.megatron.engine_model import print_verdict

    print_verdict(sys.argv[1:])
