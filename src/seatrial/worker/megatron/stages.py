# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""One pipeline stage of the engine's own model, without memory, to count its parameters."""

from argparse import Namespace
from dataclasses import fields
from math import lcm
from typing import Any

import torch
from megatron.core import parallel_state
from megatron.core.optimizer import OptimizerConfig
from megatron.core.process_groups_config import ProcessGroupCollection
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.training.argument_utils import gpt_config_from_args
from megatron.training.models.gpt import GPTModelBuilder
from torch.testing._internal.distributed.fake_pg import FakeStore

GPU_KERNELS = (
    "gradient_accumulation_fusion",
    "memory_efficient_layer_norm",
    "apply_rope_fusion",
    "bias_swiglu_fusion",
    "bias_gelu_fusion",
    "bias_dropout_fusion",
    "masked_softmax_fusion",
)
"""Fused kernels that the engine refuses to build without a GPU's libraries."""
UNCOUNTED: dict[str, Any] = {
    "moe_grouped_gemm": False,
    "recompute_granularity": None,
    "recompute_method": None,
    "recompute_num_layers": None,
}
"""What changes no parameter and cannot be built here, or depends on what cannot."""


def model_settings(args: Namespace) -> Any:
    """The engine's own configuration of the model; it refuses what does not go together."""
    # Kernels that only a GPU has are no part of what is to be judged.
    return gpt_config_from_args(Namespace(**(vars(args) | dict.fromkeys(GPU_KERNELS, False))))


def optimizer_settings(args: Namespace) -> OptimizerConfig:
    """The engine's own configuration of the optimizer; it refuses what does not go together."""
    names = {field.name for field in fields(OptimizerConfig)}
    return OptimizerConfig(**{name: value for name, value in vars(args).items() if name in names})


def stage_parameters(args: Namespace, stage: int) -> int:
    """The parameters of one rank of a stage, over all its chunks.

    Data-parallel copies hold the same, so as few are imagined as the experts' grid allows; no
    other process exists (torch's fake process group).
    """
    tp, pp = args.tensor_model_parallel_size, args.pipeline_model_parallel_size
    cp, ep, etp = args.context_parallel_size, args.expert_model_parallel_size, 1
    if args.num_experts:
        etp = args.expert_tensor_parallel_size
    per_stage = lcm(tp * cp, ep * etp)
    world = per_stage * pp
    torch.distributed.init_process_group(
        backend="fake", store=FakeStore(), rank=stage * per_stage, world_size=world
    )
    try:
        parallel_state.initialize_model_parallel(
            tensor_model_parallel_size=tp,
            pipeline_model_parallel_size=pp,
            virtual_pipeline_model_parallel_size=args.virtual_pipeline_model_parallel_size,
            context_parallel_size=cp,
            expert_model_parallel_size=ep,
            expert_tensor_parallel_size=etp,
            create_gloo_process_groups=False,
        )
        return _count(args)
    finally:
        parallel_state.destroy_model_parallel()
        torch.distributed.destroy_process_group()


def _count(args: Namespace) -> int:
    """Build every chunk of this rank's stage on the meta device and add up."""
    model_parallel_cuda_manual_seed(args.seed)
    settings = model_settings(Namespace(**(vars(args) | UNCOUNTED)))
    # Of this one the argument has another name and the opposite sense.
    settings.transformer.persist_layer_norm = False
    settings.transformer.perform_initialization = False
    builder = GPTModelBuilder(settings)
    groups = ProcessGroupCollection.use_mpu_process_groups()
    chunks = args.virtual_pipeline_model_parallel_size
    total = 0
    with torch.device("meta"):
        for chunk in range(chunks or 1):
            model = builder.build_model(groups, vp_stage=chunk if chunks else None)
            total += sum(parameter.numel() for parameter in model.parameters())
    return total
