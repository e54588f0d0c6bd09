# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Count the parameters of transformers' own models, without memory for them.

Runs in the worker's environment: configurations as JSON lines on stdin, one count per line.
"""

import json
import logging
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.utils import logging as transformers_logging

READ_AS = {"kimi_k2": "deepseek_v3"}


def count(config: dict[str, object]) -> int:
    """Build the model on the meta device; shared weights count once."""
    # A changed vocabulary may be too small for the token that is padding.
    left_out = ("auto_map", "quantization_config", "pad_token_id")
    kept = {k: v for k, v in config.items() if k not in left_out} | {"pad_token_id": None}
    name = str(kept.pop("model_type"))
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(
            AutoConfig.for_model(READ_AS.get(name, name), **kept), trust_remote_code=False
        )
    return sum(each.numel() for each in model.parameters())


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    transformers_logging.set_verbosity_error()
    for line in sys.stdin:
        print(count(json.loads(line)), flush=True)
