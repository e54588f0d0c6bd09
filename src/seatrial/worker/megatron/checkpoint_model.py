# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine's own model of a checkpoint, on one rank; its own loader cuts the state anew."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from megatron.core import dist_checkpointing, parallel_state
from megatron.core.process_groups_config import ProcessGroupCollection
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.training.argument_utils import gpt_config_from_args
from megatron.training.arguments import parse_and_validate_args
from megatron.training.models.gpt import GPTModelBuilder

SEQUENCES = 2
"""Sequences of drawn tokens."""
LONGEST = 256
"""Tokens of each, or as many as the run has: what a host remembers grows with their square."""


def write_logits(directory: Path, target: Path, seed: int) -> dict[str, Any]:
    """Draw tokens, and write them with what the engine says of each."""
    args = parse_and_validate_args()
    generator = torch.Generator().manual_seed(seed)
    shape = (SEQUENCES, min(LONGEST, args.seq_length))
    tokens = torch.randint(args.vocab_size, shape, generator=generator)
    # What is beyond the vocabulary is padding.
    logits = _logits(args, directory, tokens)[..., : args.vocab_size]
    torch.save({"tokens": tokens, "logits": logits.float().clone()}, target)
    return {"tokens": tokens.numel()}


def _logits(args: Namespace, directory: Path, tokens: torch.Tensor) -> torch.Tensor:
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    try:
        parallel_state.initialize_model_parallel()
        model_parallel_cuda_manual_seed(args.seed)
        groups = ProcessGroupCollection.use_mpu_process_groups()
        model = GPTModelBuilder(gpt_config_from_args(args)).build_model(groups).eval()
        state = {"model": model.sharded_state_dict()}
        model.load_state_dict(dist_checkpointing.load(state, str(directory))["model"])
        length = tokens.shape[1]
        positions = torch.arange(length).expand_as(tokens)
        # True is what a token does not see.
        mask = torch.ones(1, 1, length, length).tril() < 0.5
        with torch.no_grad():
            logits: torch.Tensor = model(tokens, positions, mask)
        return logits
    finally:
        torch.distributed.destroy_process_group()
