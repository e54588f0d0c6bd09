# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine's model outside of training, in one process.

Returns the engine's verdict on a layout: its validation of the arguments and of the resulting
configurations, and the number of parameters in its pipeline stages, which are built without memory.
Also computes the model's logits for a checkpoint on one rank; the engine's loader reshards the
state.
"""

import io
import json
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import fields
from math import lcm
from pathlib import Path
from typing import Any

import torch
from megatron.core import dist_checkpointing, parallel_state
from megatron.core.optimizer import OptimizerConfig
from megatron.core.process_groups_config import ProcessGroupCollection
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.training.arguments import parse_and_validate_args
from megatron.training.models.gpt import GPTModelBuilder
from torch.testing._internal.distributed.fake_pg import FakeStore

from seatrial.worker.megatron import safe_load
from seatrial.worker.megatron.arguments import hand_over
from seatrial.worker.megatron.cpu.redirection import UnknownCudaCallError
from seatrial.worker.megatron.model_config import model_config

GPU_KERNELS = (
    "gradient_accumulation_fusion",
    "memory_efficient_layer_norm",
    "apply_rope_fusion",
    "bias_swiglu_fusion",
    "bias_gelu_fusion",
    "bias_dropout_fusion",
    "masked_softmax_fusion",
    "moe_permute_fusion",
    "moe_router_fusion",
)
"""Fused kernels that the engine refuses to build without GPU libraries."""
UNCOUNTED: dict[str, Any] = {
    "moe_grouped_gemm": False,
    "recompute_granularity": None,
    "recompute_method": None,
    "recompute_num_layers": None,
}
"""Settings that do not change parameters and are not supported here, or depend on such settings."""
_LACKING = (
    r"(Transformer Engine|TE|transformer-engine)( version)? ?>=",
    r"TE version \d",
    r"FusedAdam from TransformerEngine, but not found",
    r"gradient accumulation fusion is not used",
)
"""Error messages in which the engine requires Transformer Engine, or a kernel that needs a GPU."""
SEQUENCES = 2
"""Number of random sequences."""
LONGEST = 256
"""Maximum length of a sequence: memory grows with its square."""


def print_verdict(words: Sequence[str]) -> None:
    """Validate, build the requested stages without memory, and print the engine's verdict."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--stages", required=True)
    own, arguments = parser.parse_known_args(words)
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(output):
        answer = _judge(arguments, [int(stage) for stage in own.stages.split(",") if stage])
    sys.stdout.write(json.dumps(answer) + "\n")


def _judge(arguments: Sequence[str], stages: list[int]) -> dict[str, Any]:
    """Return whether the engine accepts the arguments, with its reason or its parameter counts."""
    try:
        args = parse_and_validate_args(hand_over(arguments))
        model_settings(args)
        optimizer_settings(args)
    except SystemExit:
        return {"accepted": False, "reason": "the engine's parser rejected an argument"}
    except UnknownCudaCallError as error:
        return {"accepted": None, "reason": str(error)}
    except Exception as error:
        reason = str(error) or type(error).__name__
        return {"accepted": None if host_lacks(reason) else False, "reason": reason}
    try:
        counts = {stage: stage_parameters(args, stage) for stage in stages}
    except Exception as error:
        reason = f"building a stage: {type(error).__name__}: {error}"
        return {"accepted": False, "reason": reason}
    return {"accepted": True, "parameters": counts, "padded_vocab_size": args.padded_vocab_size}


def host_lacks(reason: str) -> bool:
    """True if the engine failed because of this host and not because of the plan.

    Transformer Engine cannot be loaded without a GPU, and then has version 0.0.0. The verdict
    excludes the fused kernels (`GPU_KERNELS`).
    """
    return any(re.search(pattern, reason) for pattern in _LACKING)


def model_settings(args: Namespace) -> Any:
    """Return the engine's model configuration, which rejects incompatible values."""
    # Kernels that need a GPU are not part of the verdict.
    return model_config(Namespace(**(vars(args) | dict.fromkeys(GPU_KERNELS, False))))


def optimizer_settings(args: Namespace) -> OptimizerConfig:
    """Return the engine's optimizer configuration, which rejects incompatible values."""
    names = {field.name for field in fields(OptimizerConfig)}
    return OptimizerConfig(**{name: value for name, value in vars(args).items() if name in names})


def stage_parameters(args: Namespace, stage: int) -> int:
    """Return the number of parameters on one rank of a stage, over all its chunks.

    Data-parallel replicas are equal, so this uses as few replicas as the expert layout allows. No
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
    """Build every chunk of this rank's stage on the meta device and count its parameters."""
    model_parallel_cuda_manual_seed(args.seed)
    settings = model_settings(Namespace(**(vars(args) | UNCOUNTED)))
    # This argument has a different name and the opposite meaning.
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


def write_logits(
    directory: Path, target: Path, seed: int, arguments: Sequence[str]
) -> dict[str, Any]:
    """Draw random tokens, and write them with the logits from the engine's model."""
    safe_load.install()
    args = parse_and_validate_args(hand_over(arguments))
    generator = torch.Generator().manual_seed(seed)
    shape = (SEQUENCES, min(LONGEST, args.seq_length))
    tokens = torch.randint(args.vocab_size, shape, generator=generator)
    # Logits beyond the vocabulary are padding.
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
        model = GPTModelBuilder(model_config(args)).build_model(groups).eval()
        state = {"model": model.sharded_state_dict()}
        model.load_state_dict(dist_checkpointing.load(state, str(directory))["model"])
        length = tokens.shape[1]
        positions = torch.arange(length).expand_as(tokens)
        # True marks positions that a token does not attend to.
        mask = torch.ones(1, 1, length, length).tril() < 0.5
        with torch.no_grad():
            logits: torch.Tensor = model(tokens, positions, mask)
        return logits
    finally:
        torch.distributed.destroy_process_group()
