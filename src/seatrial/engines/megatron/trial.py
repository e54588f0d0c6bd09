# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine's arguments for drills on CPU, and for validating a production run."""

from seatrial.engines.engine import Arguments, ArgumentValue, ShortRun, Trial
from seatrial.engines.megatron.command_line import engine_arguments
from seatrial.engines.megatron.model_flags import VOCAB_MULTIPLE
from seatrial.engines.megatron.optimizer_flags import on_cpu_arguments
from seatrial.engines.megatron.performance_flags import on_cpu_performance
from seatrial.planning.layout import Layout
from seatrial.planning.plan import Plan
from seatrial.spec.parallelism import Sharding
from seatrial.spec.pipeline_layout import PREDICTION, parse_layout
from seatrial.spec.training import Precision

CPU_ARGUMENTS: Arguments = {
    # Layers without Transformer Engine, and Seatrial's layers where Megatron's lack a feature.
    "transformer-impl": "local",
    "spec": ("seatrial.worker.megatron.cpu.layers", "gpt_spec"),
    "attention-backend": "unfused",
    "distributed-backend": "gloo",
    "use-cpu-initialization": True,
    # Fused kernels that exist only for GPUs.
    "no-gradient-accumulation-fusion": True,
    "no-masked-softmax-fusion": True,
    "no-bias-dropout-fusion": True,
    "no-bias-gelu-fusion": True,
    "no-bias-swiglu-fusion": True,
    "no-persist-layer-norm": True,
    "no-rope-fusion": True,
    # Local layers need the mask that Transformer Engine creates itself.
    "no-create-attention-mask-in-dataloader": None,
    # Loading data in the same process keeps the order of random draws.
    "num-workers": 0,
}
"""Flags that replace GPU kernels and transport. They change only rounding."""


FSDP_ON_CPU: Arguments = {
    # The weights are replaced before they are sharded, to compare layouts.
    "init-model-with-meta-device": None,
    # gloo cannot multiply while it adds. The engine then scales gradients before it adds them.
    "no-gradient-reduce-div-fusion": True,
}
"""What FSDP needs in addition."""
WITHOUT_FSDP: Arguments = {
    "use-megatron-fsdp": None,
    "init-model-with-meta-device": None,
    "data-parallel-sharding-strategy": None,
    "no-gradient-reduce-div-fusion": None,
    "ckpt-format": None,
    "use-distributed-optimizer": True,
}
"""Overrides for the one rank that FSDP is compared with."""


def cpu_arguments(plan: Plan) -> Arguments:
    """Return the arguments with which a plan trains on CPU."""
    sharding = FSDP_ON_CPU if plan.sharding is Sharding.FSDP else {}
    return CPU_ARGUMENTS | sharding | on_cpu_performance(plan) | on_cpu_arguments(plan)


STAGE_ARGUMENTS = (
    "decoder-first-pipeline-num-layers",
    "decoder-last-pipeline-num-layers",
    "account-for-embedding-in-pipeline-split",
    "account-for-loss-in-pipeline-split",
    "pipeline-model-parallel-layout",
)
"""Arguments for uneven pipeline stages, which do not apply to a single stage."""


def production_arguments(plan_arguments: Arguments) -> Arguments:
    """Return the plan's arguments for the engine's validation, without the files it would load.

    Uses the engine's local layers, because importing Transformer Engine needs a GPU.
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
    """Return the twin's arguments, adapted to CPU and to a drill."""
    arguments = engine_arguments(plan) | cpu_arguments(plan)
    if trial.mock_tokenizer:
        arguments |= {"tokenizer-type": "NullTokenizer", "tokenizer-model": None}
    if plan.spec.training.precision is Precision.FP16:
        # With the default loss scale of 2^32, such a short run would skip every step.
        arguments["initial-loss-scale"] = 4096
    arguments["tensorboard-dir"] = None
    # Do not write indices for such short sequences next to the user's data.
    arguments["data-cache-path"] = f"{trial.directory}/index-cache"
    if trial.checkpoints:
        arguments |= {"save": trial.checkpoints, "load": trial.checkpoints}
    if trial.resharding is not None:
        arguments |= _without_saving(trial.resharding.step) | _split(plan, trial.resharding.layout)
    if trial.short is not None:
        arguments |= _compared(arguments, trial.short) | _split(plan, trial.short.layout)
        if trial.short.layout.world_size == 1 and plan.sharding is Sharding.FSDP:
            arguments |= WITHOUT_FSDP
    return arguments


def _without_saving(step: int) -> Arguments:
    """Return the arguments to load a checkpoint, without saving."""
    return {"ckpt-step": step, "save": None, "save-interval": None}


def _compared(arguments: Arguments, short: ShortRun) -> Arguments:
    """Return the arguments for a few steps whose differences are only rounding in fp32."""
    unused: Arguments = {name: None for name in FOR_ONE_RANK if "save" in name or name == "load"}
    if short.without_mtp:
        unused |= dict.fromkeys(("mtp-num-layers", "mtp-loss-scaling-factor"))
        custom = arguments["pipeline-model-parallel-layout"]
        unused["pipeline-model-parallel-layout"] = _without_prediction(custom)
    return unused | {
        "use-persistent-ckpt-worker": None,
        "async-strategy": None,
        "exit-interval": short.steps,
        "bf16": None,
        "fp16": None,
        "initial-loss-scale": None,
        "hidden-dropout": 0.0,
        "attention-dropout": 0.0,
        # In any precision, it rounds the gradients of the logits to bf16.
        "cross-entropy-loss-fusion": None,
        # Without clipping, the engine does not compute the norm.
        "clip-grad": arguments["clip-grad"] or 1.0,
    }


def _without_prediction(layout: ArgumentValue) -> str | None:
    """Return a custom layout without layers for multi-token prediction; None if there is none."""
    return None if layout is None else str(parse_layout(str(layout))).replace(PREDICTION, "")


def _split(plan: Plan, layout: Layout) -> Arguments:
    """Return the arguments for a different layout of the same model."""
    arguments: Arguments = {
        "tensor-model-parallel-size": layout.tp_size,
        "pipeline-model-parallel-size": layout.pp_size,
        "context-parallel-size": layout.cp_size,
        "sequence-parallel": plan.sequence_parallel and layout.tp_size > 1,
        # The engine multiplies this by tp_size. Rows that pad the vocabulary count in the loss.
        "make-vocab-size-divisible-by": VOCAB_MULTIPLE * plan.layout.tp_size // layout.tp_size,
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
    "pipeline-model-parallel-layout": None,
    "sequence-parallel": None,
    "step-batch-size-schedule": None,
    "eval-global-batch-size": None,
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
"""Overrides that change a run's arguments to one rank in fp32, without saving."""


def one_rank_arguments(arguments: Arguments) -> Arguments:
    """Return the flags for the engine's logits."""
    return arguments | FOR_ONE_RANK | {"global-batch-size": arguments["micro-batch-size"]}
