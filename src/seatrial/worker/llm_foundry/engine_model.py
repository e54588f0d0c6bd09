# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""LLM Foundry's model outside of training, in one process.

Returns LLM Foundry's verdict on settings: its validation, and the number of parameters, from a
model built without memory. Also computes the model's logits for a checkpoint, which torch loads
independently of the export's reader.
"""

import io
import json
import logging
import os
import sys
import warnings
from argparse import ArgumentParser
from contextlib import AbstractContextManager, nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from composer.utils import dist
from llmfoundry.command_utils.train import validate_config
from llmfoundry.models.utils import init_empty_weights
from llmfoundry.utils.builders import build_composer_model
from llmfoundry.utils.config_utils import (
    TRAIN_CONFIG_KEYS,
    TrainConfig,
    make_dataclass_and_log_config,
)
from torch.distributed import checkpoint

from seatrial.checkpoints.naming import METADATA
from seatrial.engines.llm_foundry.checkpoints import WHOLE_FILE
from seatrial.worker.checkpointing.safe_load import load_archive
from seatrial.worker.llm_foundry import cpu, safe_load, settings

SEQUENCES = 2
"""Number of random sequences."""
LONGEST = 256
"""Maximum length of a sequence: memory grows with its square."""


def print_verdict(words: list[str]) -> None:
    """Validate, build the model without memory, and print LLM Foundry's verdict."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    # There is only one stage: the whole model.
    parser.add_argument("--stages")
    _, described = parser.parse_known_args(words)
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        answer = _judge(described)
    sys.stdout.write(json.dumps(answer) + "\n")


def _judge(words: list[str]) -> dict[str, Any]:
    _be_silent()
    ranks = int(os.environ["WORLD_SIZE"])
    try:
        configured, _ = settings.read(words)
        # Without an initialised process group, Composer reads the environment.
        if dist.get_world_size() != ranks:
            return {"accepted": None, "reason": "cannot determine the number of ranks"}
        _, config = make_dataclass_and_log_config(
            configured, TrainConfig, TRAIN_CONFIG_KEYS, transforms="all"
        )
        validate_config(config)
        model = _build(dict(config.model), init_empty_weights())
    except Exception as error:
        return {"accepted": False, "reason": str(error) or type(error).__name__}
    # Count shared parameters only once.
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {"accepted": True, "parameters": {0: parameters}}


def write_logits(directory: Path, target: Path, seed: int, words: list[str]) -> dict[str, Any]:
    """Draw random tokens, and write them with the logits from LLM Foundry's model."""
    _be_silent()
    cpu.install()
    configured, _ = settings.read(words)
    model = _build(dict(configured.model), nullcontext()).eval()
    model.load_state_dict(_state(directory, model.state_dict()))
    generator = torch.Generator().manual_seed(seed)
    shape = (SEQUENCES, min(LONGEST, int(configured.max_seq_len)))
    tokens = torch.randint(model.config.vocab_size, shape, generator=generator)
    with torch.no_grad():
        logits = model({"input_ids": tokens}).logits
    torch.save({"tokens": tokens, "logits": logits.float().clone()}, target)
    return {"tokens": tokens.numel()}


def _be_silent() -> None:
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")


def _build(model: dict[str, Any], context: AbstractContextManager[Any]) -> Any:
    """Build LLM Foundry's model as its training does."""
    name = model.pop("name")
    return build_composer_model(name=name, cfg=model, tokenizer=None, init_context=context)


def _state(directory: Path, empty: dict[str, Any]) -> dict[str, Any]:
    """Return the model's tensors in a checkpoint, loaded with torch as in Composer."""
    safe_load.install()
    if (directory / METADATA).is_file():
        state = {"state": {"model": empty}}
        checkpoint.load(state, checkpoint_id=str(directory), no_dist=True)
        return state["state"]["model"]
    found: dict[str, Any] = load_archive(directory / WHOLE_FILE)["state"]["model"]
    return found
