# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The engine's arguments for counting one rank of a full-size run without a GPU."""

from seatrial.engines.engine import Arguments, DistinctRank, FullSizeArguments, TrafficKind
from seatrial.engines.megatron.command_line import engine_arguments
from seatrial.engines.megatron.performance_flags import ON_CPU
from seatrial.planning.layout import Axis
from seatrial.planning.plan import Plan
from seatrial.spec.parallelism import Sharding

STEPS = 2
"""The worker counts the second step."""

WITHOUT_FILES: Arguments = dict.fromkeys(
    (
        "data-path",
        "data-args-path",
        "data-cache-path",
        "split",
        "tokenizer-model",
        "train-samples",
        "step-batch-size-schedule",
        "eval-global-batch-size",
        "min-lr",
        "lr-wsd-decay-style",
        "seed",
        "init-method-std",
        "lr-warmup-samples",
        "lr-decay-samples",
        "lr-warmup-iters",
        "lr-decay-iters",
        "lr-wsd-decay-samples",
        "lr-wsd-decay-iters",
        "save",
        "load",
        "save-interval",
        "async-save",
        "use-persistent-ckpt-worker",
        "async-strategy",
        "dist-ckpt-optim-fully-reshardable",
        "pretrained-checkpoint",
        "log-throughput",
        "tensorboard-dir",
        "wandb-project",
        "wandb-exp-name",
        "wandb-entity",
        "exit-interval",
        "exit-duration-in-mins",
        "exit-signal-handler",
        "deterministic-mode",
    )
)
"""Arguments for files, schedules, random numbers and logs, which do not change what is counted."""

WITHOUT_A_GPU: Arguments = {
    # The engine's own: a process group without other processes.
    "fake-process-group": True,
    "transformer-impl": "local",
    "spec": ("seatrial.worker.megatron.full_size.layers", "gpt_spec"),
    "attention-backend": None,
    "no-masked-softmax-fusion": True,
    "no-persist-layer-norm": True,
    "no-initialization": True,
    "dataloader-type": "external",
    "mock-data": True,
    "tokenizer-type": "NullTokenizer",
    "train-iters": STEPS,
    "eval-iters": 0,
    "eval-interval": 1000,
    "log-interval": 100,
    "logging-level": 40,
    # No value depends on the learning rate, and records are reused if it changes.
    "lr": 1e-4,
    "lr-decay-style": "constant",
    "no-load-rng": True,
    "no-load-optim": True,
}
"""Arguments with which the engine needs neither a GPU nor data."""

GROUP_KINDS = {
    "TENSOR_MODEL_PARALLEL_GROUP": TrafficKind.TENSOR,
    "EXPERT_TENSOR_PARALLEL_GROUP": TrafficKind.TENSOR,
    "CONTEXT_PARALLEL_GROUP": TrafficKind.CONTEXT,
    "EXPERT_MODEL_PARALLEL_GROUP": TrafficKind.EXPERTS,
    "EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP": TrafficKind.EXPERTS,
    "PIPELINE_MODEL_PARALLEL_GROUP": TrafficKind.PIPELINE,
    "DATA_PARALLEL_GROUP": TrafficKind.REPLICAS,
    "DATA_PARALLEL_GROUP_WITH_CP": TrafficKind.REPLICAS,
    "EXPERT_DATA_PARALLEL_GROUP": TrafficKind.REPLICAS,
    "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP": TrafficKind.REPLICAS,
    "INTRA_PARTIAL_EXPERT_DATA_PARALLEL_GROUP": TrafficKind.REPLICAS,
    "EMBEDDING_GROUP": TrafficKind.REPLICAS,
    "POSITION_EMBEDDING_GROUP": TrafficKind.REPLICAS,
}
"""Megatron's process groups (`core/parallel_state.py` in 0.19.2)."""

NARROW = ("fp8-format", "fp8-recipe", "fp4-format", "fp8-param-gather", "fp4-param-gather")
MEANINGS = {
    "tp-comm-overlap": "overlap of tensor-parallel communication with products",
    "overlap-moe-expert-parallel-comm": "overlap of the expert exchange with other work",
    "moe-grouped-gemm": "grouped experts: they are counted one after the other",
    "moe-permute-fusion": "fused permutation of tokens",
    "moe-router-fusion": "fused router",
    "moe-flex-dispatcher-backend": "DeepEP: the exchange is counted as NCCL's all-to-all",
    "cuda-graph-impl": "CUDA graphs and their memory pools",
    "use-precision-aware-optimizer": "moments in another format than fp32",
    "optimizer-cpu-offload": "optimizer state on the host: it is counted on the GPU",
    "cpu-offloading-num-layers": "activations on the host: they are counted on the GPU",
    "fp8-format": "8-bit messages: gathered inputs are counted in bf16",
    "fp4-format": "4-bit messages: gathered inputs are counted in bf16",
}
"""What is left out with an argument."""


def full_size_arguments(plan: Plan, micro_batches: int) -> FullSizeArguments:
    """Return the arguments of the real run, without what needs a GPU, data or files."""
    asked = engine_arguments(plan)
    without = ON_CPU | dict.fromkeys(NARROW)
    dropped = tuple(
        MEANINGS[name]
        for name in without
        if name in MEANINGS and asked.get(name) is not None and asked[name] is not False
    )
    arguments = asked | WITHOUT_FILES | without | WITHOUT_A_GPU
    arguments |= _kernels(plan, asked)
    if asked.get("moe-token-dispatcher-type") == "flex":
        arguments["moe-token-dispatcher-type"] = "alltoall"
    arguments["global-batch-size"] = (
        micro_batches * plan.batch.micro_batch_size * plan.layout.dp_size
    )
    return FullSizeArguments(arguments, dropped)


BLACKWELL = ("b200", "b300", "gb200", "gb300")
CUDNN_FIRST = ("h100", "h200", *BLACKWELL)
"""GPUs on which Transformer Engine prefers cuDNN's attention: docs/engine/full-size-kernels.md."""


def _kernels(plan: Plan, asked: Arguments) -> Arguments:
    """Return the worker's arguments: the kernels that run on the plan's GPU."""
    gpu = plan.machines.accelerator.lower()
    is_new = gpu.startswith(BLACKWELL)
    varies = not asked.get("deterministic-mode") or plan.spec.training.attention_dropout == 0
    is_fused = gpu.startswith(CUDNN_FIRST) and (varies or not is_new)
    fp8, fp4 = asked.get("fp8-recipe"), asked.get("fp4-format")
    return {
        "attention": "fused" if is_fused else "flash",
        "narrow": (fp8 or "delayed") if asked.get("fp8-format") else "nvfp4" if fp4 else None,
        "native-transpose": is_new and bool(asked.get("fp8-format")),
        "narrow-weights": bool(asked.get("fp8-param-gather") or asked.get("fp4-param-gather")),
    }


def full_size_ranks(plan: Plan) -> tuple[DistinctRank, ...]:
    """Return the first rank of each stage.

    Stages differ in their layers and in the number of micro-batches that they keep. Inside a stage,
    all ranks have equal shapes: tensors, sequences and experts are split evenly, and the shards of
    the optimizer differ only in padding, of which the first has none.
    """
    layout = plan.layout
    each = layout.world_size // layout.pp_size
    return tuple(
        DistinctRank(layout.rank({Axis.PP: stage}), stage, each) for stage in range(layout.pp_size)
    )


def no_full_size(plan: Plan) -> str:
    """Return why a plan cannot be counted; empty if it can."""
    if plan.sharding is Sharding.FSDP:
        return "Megatron FSDP is not supported by the full-size drill yet. Use sharding: optimizer."
    return ""
