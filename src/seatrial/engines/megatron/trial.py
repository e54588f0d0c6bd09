# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the engine is told in drills on a CPU, and what its validation is told of production."""

from seatrial.engines.engine import Arguments, Resharding, Trial
from seatrial.engines.megatron.command_line import engine_arguments
from seatrial.planning.plan import Plan
from seatrial.spec.training import Precision

CPU_ARGUMENTS: Arguments = {
    # Layers without Transformer Engine, and ours where those lack something.
    "transformer-impl": "local",
    "spec": ("seatrial.worker.megatron.cpu.layers", "gpt_spec"),
    "attention-backend": "unfused",
    "distributed-backend": "gloo",
    "use-cpu-initialization": True,
    # Fused kernels that exist only for a GPU.
    "no-gradient-accumulation-fusion": True,
    "no-masked-softmax-fusion": True,
    "no-bias-dropout-fusion": True,
    "no-bias-gelu-fusion": True,
    "no-bias-swiglu-fusion": True,
    "no-persist-layer-norm": True,
    "no-rope-fusion": True,
    "moe-grouped-gemm": None,
    # The layers without Transformer Engine want the mask that it makes itself.
    "no-create-attention-mask-in-dataloader": None,
    # Loading in the process itself keeps the order of random draws.
    "num-workers": 0,
}
"""Flags that replace a GPU's kernels and transport; only rounding changes by them."""


STAGE_ARGUMENTS = (
    "decoder-first-pipeline-num-layers",
    "decoder-last-pipeline-num-layers",
    "account-for-embedding-in-pipeline-split",
    "account-for-loss-in-pipeline-split",
)
"""What makes stages uneven, which one stage alone cannot be."""


def production_arguments(plan_arguments: Arguments) -> Arguments:
    """The arguments for the engine's verdict: the plan's own, without what validation would load.

    The layers are the engine's local ones, because Transformer Engine needs a GPU to be imported.
    """
    return plan_arguments | {
        "tokenizer-type": "NullTokenizer",
        "tokenizer-model": None,
        "tensorboard-dir": None,
        "wandb-project": None,
        "wandb-exp-name": None,
        "wandb-entity": None,
        "spec": CPU_ARGUMENTS["spec"],
    }


def trial_arguments(plan: Plan, trial: Trial) -> Arguments:
    """The twin's own arguments, and what a CPU and a drill need."""
    arguments = engine_arguments(plan) | CPU_ARGUMENTS
    if trial.mock_tokenizer:
        arguments |= {"tokenizer-type": "NullTokenizer", "tokenizer-model": None}
    if plan.spec.training.precision is Precision.FP16:
        # From its default of 2^32 the loss scale would skip every step of so short a run.
        arguments["initial-loss-scale"] = 4096
    arguments["tensorboard-dir"] = None
    # Indices for so short a sequence do not belong beside the user's data.
    arguments["data-cache-path"] = f"{trial.directory}/index-cache"
    if trial.checkpoints:
        arguments |= {"save": trial.checkpoints, "load": trial.checkpoints}
    if trial.resharding is not None:
        arguments |= _resharded(plan, trial.resharding)
    return arguments


def _resharded(plan: Plan, other: Resharding) -> Arguments:
    """What loads a save in another layout and goes on without saving."""
    layout = other.layout
    arguments: Arguments = {
        "ckpt-step": other.step,
        "save": None,
        "save-interval": None,
        "tensor-model-parallel-size": layout.tp_size,
        "pipeline-model-parallel-size": layout.pp_size,
        "context-parallel-size": layout.cp_size,
        "sequence-parallel": plan.sequence_parallel and layout.tp_size > 1,
    }
    if layout.pp_size == 1:
        for name in STAGE_ARGUMENTS:
            arguments[name] = None
        arguments["num-virtual-stages-per-pipeline-rank"] = None
    if plan.model.architecture.is_moe:
        ranks, ep = layout.tp_size * layout.cp_size * layout.dp_size, plan.layout.ep_size
        arguments["expert-model-parallel-size"] = ep if ranks % ep == 0 else 1
    return arguments


FOR_ONE_RANK: Arguments = {
    "tensor-model-parallel-size": 1,
    "pipeline-model-parallel-size": 1,
    "num-virtual-stages-per-pipeline-rank": None,
    "context-parallel-size": 1,
    "expert-model-parallel-size": None,
    "expert-tensor-parallel-size": None,
    "decoder-first-pipeline-num-layers": None,
    "decoder-last-pipeline-num-layers": None,
    "account-for-embedding-in-pipeline-split": None,
    "account-for-loss-in-pipeline-split": None,
    "sequence-parallel": None,
    "recompute-granularity": None,
    "recompute-method": None,
    "recompute-num-layers": None,
    "recompute-modules": None,
    "bf16": None,
    "fp16": None,
    "initial-loss-scale": None,
    "save": None,
    "load": None,
    "save-interval": None,
    "async-save": None,
    "use-persistent-ckpt-worker": None,
    "async-strategy": None,
    "pretrained-checkpoint": None,
    "tokenizer-type": "NullTokenizer",
    "tokenizer-model": None,
    "data-path": None,
    "data-args-path": None,
    "data-cache-path": None,
    "mock-data": True,
}
"""What turns a run's arguments into those of one rank in fp32 that saves nothing."""


def one_rank_arguments(arguments: Arguments) -> Arguments:
    """The flags for the engine's own logits."""
    return arguments | FOR_ONE_RANK | {"global-batch-size": arguments["micro-batch-size"]}
