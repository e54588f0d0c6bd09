# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine's model configuration from its arguments."""

from argparse import Namespace

from megatron.training.argument_utils import gpt_config_from_args
from megatron.training.models.gpt import GPTModelConfig


def model_config(args: Namespace) -> GPTModelConfig:
    """Return the engine's model configuration, which rejects incompatible values."""
    config = gpt_config_from_args(args)
    # The engine parses this flag but does not pass it on, so its model would always have factor 8
    # (megatron-core 0.19.2, training/argument_utils.py).
    config.rope_scaling_factor = args.rope_scaling_factor
    if args.multi_latent_attention:
        # The engine ignores these flags for latent attention, and its model would always have the
        # constants of DeepSeek-V3 (_apply_yarn_config_from_args in the same file).
        for name in ("original_max_position_embeddings", "beta_fast", "beta_slow"):
            given = getattr(args, f"yarn_{name}")
            if given is not None:
                setattr(config.transformer, name, given)
    return config
