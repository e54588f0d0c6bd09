# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Check an export: `python -m seatrial.worker.weights.compare_logits WEIGHTS LOGITS`.

Loads weights with transformers, in fp32, and compares their logits with the engine's logits for the
same tokens. Runs in a separate process, because torch in the engine's process is patched to report
a GPU.
"""

import sys
from pathlib import Path
from typing import Any

import torch
import transformers

from seatrial.worker.checkpointing.safe_load import load_archive
from seatrial.worker.weights.progress import answer


def main() -> None:
    """Compare, and print the largest difference."""
    weights, logits = sys.argv[1:3]
    answer(lambda _: compare(weights, Path(logits)))


def compare(weights: str, logits: Path) -> dict[str, Any]:
    """Return the differences between the logits."""
    held = load_archive(logits)
    tokens, engine = held["tokens"], held["logits"]
    # LLM Foundry uses transformers 4, where this argument has a different name.
    named = "torch_dtype" if transformers.__version__.startswith("4.") else "dtype"
    model = transformers.AutoModelForCausalLM.from_pretrained(
        weights,
        attn_implementation="eager",
        local_files_only=True,
        trust_remote_code=False,
        **{named: torch.float32},
    ).eval()
    with torch.no_grad():
        theirs = model(tokens).logits.float()
    if theirs.shape != engine.shape:
        return {"largest": None, "shapes": [list(engine.shape), list(theirs.shape)]}
    return {
        "largest": (theirs - engine).abs().max().item(),
        "largest_logit": engine.abs().max().item(),
        "same_choice": int((theirs.argmax(-1) == engine.argmax(-1)).sum()),
        "tokens": tokens.numel(),
        "vocabulary": engine.shape[-1],
    }


if __name__ == "__main__":
    main()
