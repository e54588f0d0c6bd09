# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""LLM Foundry's logits for a checkpoint: `python -m seatrial.worker.llm_foundry.logits`.

Arguments: the directory of a verified checkpoint, an output file, a seed, and the model's settings.
"""

import sys
from pathlib import Path

from seatrial.worker.environment import ON_CPU, ONE_THREAD, set_variables
from seatrial.worker.llm_foundry.run import ENVIRONMENT
from seatrial.worker.process import end_with_parent
from seatrial.worker.weights.progress import answer

if __name__ == "__main__":
    end_with_parent()
    set_variables(unless_set=ENVIRONMENT | ON_CPU | ONE_THREAD)
    from seatrial.worker.llm_foundry.engine_model import write_logits

    directory, target, seed, *words = sys.argv[1:]
    answer(lambda _: write_logits(Path(directory), Path(target), int(seed), words))
