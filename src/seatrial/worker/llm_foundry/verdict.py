# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""LLM Foundry's verdict on a plan's settings, in one process: its own validation, its own counts.

`WORLD_SIZE` in the environment is the real number of ranks. Prints one line of JSON.
"""

import io
import json
import logging
import os
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from typing import Any


def main() -> None:
    """Validate, build the model without memory, and print what LLM Foundry says."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        answer = _answer(sys.argv[1:])
    sys.stdout.write(json.dumps(answer) + "\n")


def _answer(words: list[str]) -> dict[str, Any]:
    from composer.utils import dist  # noqa: PLC0415
    from llmfoundry.command_utils.train import validate_config  # noqa: PLC0415
    from llmfoundry.utils.config_utils import (  # noqa: PLC0415
        TRAIN_CONFIG_KEYS,
        TrainConfig,
        make_dataclass_and_log_config,
    )

    from seatrial.worker.llm_foundry import settings  # noqa: PLC0415

    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    if words[:1] == ["--stages"]:
        # There is one stage, which is the whole model.
        words = words[2:]
    ranks = int(os.environ["WORLD_SIZE"])
    try:
        configured, _ = settings.read(words)
        # Not initialised, it goes by the environment.
        if dist.get_world_size() != ranks:
            return {"accepted": None, "reason": "the number of ranks cannot be told here"}
        _, config = make_dataclass_and_log_config(
            configured, TrainConfig, TRAIN_CONFIG_KEYS, transforms="all"
        )
        validate_config(config)
        parameters = _parameters(dict(config.model))
    except Exception as error:
        return {"accepted": False, "reason": str(error) or type(error).__name__}
    return {"accepted": True, "parameters": {0: parameters}}


def _parameters(model: dict[str, Any]) -> int:
    """How many parameters LLM Foundry's own model has, each counted once."""
    from llmfoundry.models.utils import init_empty_weights  # noqa: PLC0415
    from llmfoundry.utils.builders import build_composer_model  # noqa: PLC0415

    name = model.pop("name")
    built = build_composer_model(
        name=name, cfg=model, tokenizer=None, init_context=init_empty_weights()
    )
    return sum(parameter.numel() for parameter in built.parameters())


if __name__ == "__main__":
    main()
