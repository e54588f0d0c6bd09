# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Continue a text: `python -m seatrial.worker.weights.generate WEIGHTS TEXT TOKENS HEAT SEED`.

Loads exported weights with transformers on a CPU, from safetensors only and without remote code.
"""

import sys
from typing import Any

import torch
import transformers

from seatrial.worker.weights.progress import answer

LIKELIEST = 40
"""Each token is drawn from this many likeliest ones."""


def main() -> None:
    """Generate, and print the whole text."""
    weights, text, tokens, heat, seed = sys.argv[1:6]
    answer(lambda _: generate(weights, text, int(tokens), float(heat), int(seed)))


def generate(weights: str, text: str, tokens: int, heat: float, seed: int) -> dict[str, Any]:
    """Continue a text by so many tokens. Without heat, each token is the likeliest one."""
    transformers.logging.set_verbosity_error()
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        weights, local_files_only=True, trust_remote_code=False
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(
        weights, local_files_only=True, trust_remote_code=False, use_safetensors=True
    ).eval()
    given = tokenizer(text, return_tensors="pt")["input_ids"]
    torch.manual_seed(seed)
    drawn = {"do_sample": True, "temperature": heat, "top_k": LIKELIEST} if heat else {}
    written = model.generate(given, max_new_tokens=tokens, pad_token_id=0, **drawn)
    return {
        "text": tokenizer.decode(written[0], skip_special_tokens=True),
        "tokens": int(written.shape[1] - given.shape[1]),
        "class": type(model).__name__,
    }


if __name__ == "__main__":
    main()
