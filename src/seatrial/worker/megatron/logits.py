# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine's logits of a checkpoint: `python -m seatrial.worker.megatron.logits`.

Takes the checkpoint's directory, which was verified, a file to write to, a seed, and the engine's
arguments for one rank.
"""

import os
import sys
from pathlib import Path


def main() -> None:
    """Load, compute, and write tokens and logits."""
    directory, target, seed = sys.argv[1:4]
    del sys.argv[1:4]
    os.environ |= {"WORLD_SIZE": "1", "RANK": "0"}
    # Before the engine is imported: it decides by torch.cuda what it is made of.
    from seatrial.worker.megatron.cpu.runtime import install  # noqa: PLC0415

    install()
    from seatrial.worker.checkpointing import safe_load  # noqa: PLC0415
    from seatrial.worker.megatron.checkpoint_model import write_logits  # noqa: PLC0415
    from seatrial.worker.weights.progress import answer  # noqa: PLC0415

    safe_load.install()
    answer(lambda tell: write_logits(Path(directory), Path(target), int(seed)))


if __name__ == "__main__":
    main()
