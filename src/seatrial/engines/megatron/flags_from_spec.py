# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The mapping from spec and plan fields to Megatron's flags."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

from seatrial.engines.megatron.model_flags import MODEL_FLAGS, Flag, with_experts
from seatrial.engines.megatron.optimizer_flags import OPTIMIZER_CHECKPOINT, OPTIMIZER_FLAGS
from seatrial.engines.megatron.performance_flags import PERFORMANCE_FLAGS
from seatrial.planning.plan import Plan, weights_location
from seatrial.spec.addresses import tokenizer_name
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.training import AnnealStyle, DecayStyle, Precision

_STYLES = {style: str(style) for style in DecayStyle} | {DecayStyle.WSD: "WSD"}
_ANNEAL_STYLES = {style: str(style) for style in AnnealStyle} | {
    AnnealStyle.MINUS_SQUARE_ROOT: "minus_sqrt"
}
_HALF = (Precision.BF16, Precision.FP8, Precision.MXFP8, Precision.NVFP4)
_FP8_RECIPES = {Precision.FP8: "delayed", Precision.MXFP8: "mxfp8"}


def _counts_samples(plan: Plan) -> bool:
    """True if the run's length is in samples. The engine then needs the schedule in samples too.

    With a batch schedule, the engine counts its steps only from samples: with a number of steps,
    it would train and decay the learning rate as if every step had the smallest batch.
    """
    return plan.spec.training.samples is not None or _has_batch_schedule(plan)


def _has_batch_schedule(plan: Plan) -> bool:
    return bool(plan.spec.training.batch_schedule)


def _batch_schedule(plan: Plan) -> str | None:
    """Return each batch size with the tokens from which it is used."""
    training = plan.spec.training
    if not training.batch_schedule:
        return None
    starts = (0, *(early.until_tokens for early in training.batch_schedule))
    sizes = (phase.global_batch_size for phase in plan.length.phases)
    return ",".join(f"{start}:{size}" for start, size in zip(starts, sizes, strict=True))


def _iterations(samples: Callable[[Plan], int]) -> Callable[[Plan], int | None]:
    """Return a part of the schedule in steps, or None if the run counts samples."""
    return lambda plan: (
        None if _counts_samples(plan) else samples(plan) // plan.batch.global_batch_size
    )


def _first_stage_layers(plan: Plan) -> int | None:
    """Return the layers of the first stage, unless they follow from those of the last one.

    With two stages of several chunks and both numbers, the engine divides by the number of stages
    in between, which is 0 (get_transformer_layer_offset, megatron-core 0.19.2).
    """
    spec, layout = plan.spec.parallelism, plan.layout
    follows = layout.pp_size == 2 and layout.vp_size > 1 and spec.last_stage_layers is not None
    return None if follows else spec.first_stage_layers


def _chunks(plan: Plan) -> int | None:
    """Return the chunks per stage, unless they follow from a custom layout."""
    follows = plan.layout.vp_size == 1 or plan.spec.parallelism.pipeline_layout is not None
    return None if follows else plan.layout.vp_size


def _sharded(plan: Plan) -> bool:
    return plan.sharding is Sharding.OPTIMIZER


def _fsdp(plan: Plan) -> bool:
    return plan.sharding is Sharding.FSDP


def _has_board(plan: Plan) -> bool:
    """True if TensorBoard files are written.

    The engine sends to W&B only the metrics that it also writes to TensorBoard
    (megatron/training/training.py, training_log: the calls are inside `if writer`).
    """
    return plan.spec.monitoring.tensorboard or plan.spec.monitoring.wandb is not None


def _data_path(plan: Plan) -> tuple[str, ...] | None:
    """Return the blend of prepared data, as alternating weights and paths."""
    sources = plan.spec.data.sources or ()
    if not sources or any(source.prepared is None for source in sources):
        return None
    words = []
    for source in sources:
        if source.weight is not None:
            words.append(f"{source.weight:g}")
        words.append(str(source.prepared))
    return tuple(words)


def _blend_file(plan: Plan) -> str | None:
    """Return the blend file that `seatrial data prepare` writes, if sources are raw text."""
    sources = plan.spec.data.sources
    raw = sources is not None and any(source.prepared is None for source in sources)
    return f"{plan.data_location}/blend.txt" if raw else None


_TOKENIZER_FILES = {".model": "GPTSentencePieceTokenizer", ".tiktoken": "TikTokenizer"}
"""The engine's tokenizer for files with these suffixes; Hugging Face's for all other files."""


def _tokenizer_type(plan: Plan) -> str:
    """Return the engine's class for the plan's tokenizer."""
    if not plan.model.tokenizer:
        return "NullTokenizer"
    return _TOKENIZER_FILES.get(Path(plan.model.tokenizer).suffix, "HuggingFaceTokenizer")


def _tokenizer(plan: Plan) -> str | None:
    """Return the tokenizer's name on the Hub, or its path. Hugging Face needs a directory."""
    name = tokenizer_name(plan.model.tokenizer)[0]
    if name.endswith("/tokenizer.json"):
        return name.removesuffix("/tokenizer.json")
    return name or None


FLAGS = (
    *MODEL_FLAGS,
    # The data.
    Flag("mock-data", "data.mock", lambda p: bool(p.spec.data.mock)),
    Flag("data-path", "data.sources", _data_path),
    Flag("data-args-path", "data.sources", _blend_file),
    # Otherwise the index of a blend is rebuilt at every start.
    Flag(
        "data-cache-path",
        "data.location",
        lambda p: f"{p.data_location}/cache" if p.spec.data.sources else None,
    ),
    Flag(
        "split",
        "data.split",
        # The engine's pattern accepts digits and a decimal point, but no exponent.
        lambda p: ",".join(f"{Decimal(f'{share:g}'):f}" for share in p.spec.data.split),
    ),
    Flag(
        "tokenizer-type",
        "data.tokenizer",
        _tokenizer_type,
    ),
    Flag("tokenizer-model", "data.tokenizer", _tokenizer),
    # Length, batch, schedule.
    Flag(
        "train-samples",
        "training.samples",
        lambda p: p.length.samples if _counts_samples(p) else None,
    ),
    Flag(
        "train-iters",
        "training.steps",
        lambda p: None if _counts_samples(p) else p.length.steps,
    ),
    Flag("seq-length", "training.sequence_length", lambda p: p.model.sequence_length),
    Flag("micro-batch-size", "training.micro_batch_size", lambda p: p.batch.micro_batch_size),
    Flag(
        "global-batch-size",
        "training.global_batch_size",
        lambda p: None if _has_batch_schedule(p) else p.batch.global_batch_size,
    ),
    Flag("step-batch-size-schedule", "training.batch_schedule", _batch_schedule),
    # Otherwise, evaluations with a batch schedule use one micro-batch per rank.
    Flag(
        "eval-global-batch-size",
        "",
        lambda p: p.batch.global_batch_size if _has_batch_schedule(p) else None,
    ),
    Flag("lr", "training.learning_rate.peak", lambda p: p.schedule.peak),
    Flag("min-lr", "training.learning_rate.minimum", lambda p: p.schedule.minimum),
    Flag(
        "lr-decay-style",
        "training.learning_rate.style",
        lambda p: _STYLES[p.spec.training.learning_rate.style],
    ),
    Flag(
        "lr-warmup-samples",
        "training.learning_rate.warmup",
        lambda p: p.schedule.warmup_samples if _counts_samples(p) else None,
    ),
    Flag(
        "lr-decay-samples",
        "training.learning_rate.decay",
        lambda p: p.schedule.decay_samples if _counts_samples(p) else None,
    ),
    Flag(
        "lr-warmup-iters",
        "training.learning_rate.warmup",
        _iterations(lambda p: p.schedule.warmup_samples),
    ),
    Flag(
        "lr-decay-iters",
        "training.learning_rate.decay",
        _iterations(lambda p: p.schedule.decay_samples),
    ),
    Flag(
        "lr-wsd-decay-samples",
        "training.learning_rate.anneal",
        lambda p: (p.schedule.anneal_samples or None) if _counts_samples(p) else None,
    ),
    Flag(
        "lr-wsd-decay-iters",
        "training.learning_rate.anneal",
        lambda p: (
            None
            if _counts_samples(p) or not p.schedule.anneal_samples
            else max(1, p.schedule.anneal_samples // p.batch.global_batch_size)
        ),
    ),
    Flag(
        "lr-wsd-decay-style",
        "training.learning_rate.anneal_style",
        lambda p: (
            _ANNEAL_STYLES[p.spec.training.learning_rate.anneal_style]
            if p.schedule.anneal_samples
            else None
        ),
    ),
    *OPTIMIZER_FLAGS,
    Flag("bf16", "training.precision", lambda p: p.spec.training.precision in _HALF),
    Flag("fp16", "training.precision", lambda p: p.spec.training.precision is Precision.FP16),
    Flag(
        "fp8-format",
        "training.precision",
        lambda p: "hybrid" if p.spec.training.precision in _FP8_RECIPES else None,
    ),
    Flag(
        "fp8-recipe",
        "training.precision",
        lambda p: _FP8_RECIPES.get(p.spec.training.precision),
    ),
    Flag(
        "fp4-format",
        "training.precision",
        lambda p: "e2m1" if p.spec.training.precision is Precision.NVFP4 else None,
    ),
    Flag("hidden-dropout", "training.hidden_dropout", lambda p: p.spec.training.hidden_dropout),
    Flag(
        "attention-dropout",
        "training.attention_dropout",
        lambda p: p.spec.training.attention_dropout,
    ),
    Flag("init-method-std", "training.init_std", lambda p: p.spec.training.init_std),
    Flag(
        "eval-interval",
        "training.evaluation.every_steps",
        lambda p: p.spec.training.evaluation.every_steps,
    ),
    Flag("eval-iters", "training.evaluation.batches", lambda p: p.spec.training.evaluation.batches),
    Flag("seed", "training.seed", lambda p: p.spec.training.seed),
    Flag("deterministic-mode", "training.deterministic", lambda p: p.spec.training.deterministic),
    # The layout.
    Flag("tensor-model-parallel-size", "parallelism.tp_size", lambda p: p.layout.tp_size),
    Flag("pipeline-model-parallel-size", "parallelism.pp_size", lambda p: p.layout.pp_size),
    Flag(
        "num-virtual-stages-per-pipeline-rank",
        "parallelism.vp_size",
        _chunks,
    ),
    Flag("context-parallel-size", "parallelism.cp_size", lambda p: p.layout.cp_size),
    Flag(
        "expert-model-parallel-size",
        "parallelism.ep_size",
        with_experts(lambda p: p.layout.ep_size),
    ),
    Flag(
        "expert-tensor-parallel-size",
        "parallelism.etp_size",
        with_experts(lambda p: p.layout.etp_size),
    ),
    Flag(
        "decoder-first-pipeline-num-layers",
        "parallelism.first_stage_layers",
        _first_stage_layers,
    ),
    Flag(
        "decoder-last-pipeline-num-layers",
        "parallelism.last_stage_layers",
        lambda p: p.spec.parallelism.last_stage_layers,
    ),
    Flag(
        "account-for-embedding-in-pipeline-split",
        "parallelism.embedding_as_layer",
        lambda p: p.spec.parallelism.embedding_as_layer,
    ),
    Flag(
        "account-for-loss-in-pipeline-split",
        "parallelism.loss_as_layer",
        lambda p: p.spec.parallelism.loss_as_layer,
    ),
    Flag(
        "pipeline-model-parallel-layout",
        "parallelism.pipeline_layout",
        lambda p: p.spec.parallelism.pipeline_layout,
    ),
    Flag("sequence-parallel", "parallelism.sequence_parallel", lambda p: p.sequence_parallel),
    Flag("use-distributed-optimizer", "parallelism.sharding", _sharded),
    Flag("use-megatron-fsdp", "parallelism.sharding", _fsdp),
    # Otherwise every rank builds all weights of its tensor-parallel rank before it shards them.
    Flag("init-model-with-meta-device", "parallelism.sharding", _fsdp),
    Flag(
        "data-parallel-sharding-strategy",
        "parallelism.sharding",
        lambda p: "optim_grads_params" if _fsdp(p) else None,
    ),
    Flag(
        "recompute-granularity",
        "parallelism.recompute",
        lambda p: None if p.recompute is Recompute.NONE else str(p.recompute),
    ),
    Flag(
        "recompute-method",
        "",
        lambda p: "uniform" if p.recompute is Recompute.FULL else None,
    ),
    Flag(
        "recompute-num-layers",
        "",
        lambda p: 1 if p.recompute is Recompute.FULL else None,
    ),
    Flag(
        "recompute-modules",
        "parallelism.recompute_modules",
        lambda p: tuple(map(str, p.spec.parallelism.recompute_modules)) or None,
    ),
    *PERFORMANCE_FLAGS,
    # Checkpoints. Load from the same directory, so that a restarted run resumes.
    Flag("save", "checkpoints.location", lambda p: p.checkpoint_location),
    Flag("load", "checkpoints.location", lambda p: p.checkpoint_location),
    Flag("save-interval", "checkpoints.every_steps", lambda p: p.save_every_steps),
    Flag("async-save", "checkpoints.asynchronous", lambda p: p.spec.checkpoints.asynchronous),
    # Without the first flag, the engine silently saves synchronously. Its default strategy needs
    # an additional package.
    Flag(
        "use-persistent-ckpt-worker",
        "checkpoints.asynchronous",
        lambda p: p.spec.checkpoints.asynchronous,
    ),
    Flag(
        "async-strategy",
        "checkpoints.asynchronous",
        lambda p: "mcore" if p.spec.checkpoints.asynchronous else None,
    ),
    Flag(
        "ckpt-format",
        "",
        lambda p: "fsdp_dtensor" if _fsdp(p) else "torch_dist",
    ),
    OPTIMIZER_CHECKPOINT,
    Flag("pretrained-checkpoint", "initial_weights", weights_location),
    # Logging.
    Flag("log-interval", "monitoring.log_every_steps", lambda p: p.spec.monitoring.log_every_steps),
    Flag("log-throughput", "", lambda p: True),
    Flag(
        "tensorboard-dir",
        "monitoring.tensorboard",
        lambda p: f"{p.checkpoint_location}/tensorboard" if _has_board(p) else None,
    ),
    Flag(
        "wandb-project",
        "monitoring.wandb.project",
        lambda p: p.spec.monitoring.wandb.project if p.spec.monitoring.wandb else None,
    ),
    Flag(
        "wandb-exp-name",
        "monitoring.wandb.project",
        lambda p: p.spec.name if p.spec.monitoring.wandb else None,
    ),
    Flag(
        "wandb-entity",
        "monitoring.wandb.entity",
        lambda p: p.spec.monitoring.wandb.entity if p.spec.monitoring.wandb else None,
    ),
)
"""All flags that a plan sets, in command-line order."""
