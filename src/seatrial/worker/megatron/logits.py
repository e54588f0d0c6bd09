# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine's logits for a checkpoint: `python -m seatrial.worker.megatron.logits`.

Arguments: the directory of a verified checkpoint, an output file, a seed, and the engine's
arguments for one rank.
"""

import sys
from pathlib import Path

from seatrial.worker.megatron.cpu.start import start_on_cpu
from seatrial.worker.weights.progress import answer

if __name__ == "__main__":
    directory, target, seed, *arguments = sys.argv[1:]
    start_on_cpu(arguments, {"WORLD_SIZE": "1", "RANK": "0"})
    from seatrial.worker.megatron.engine_model import write_logits

    answer(lambda _: write_logits(Path(directory), Path(target), int(seed), arguments))
