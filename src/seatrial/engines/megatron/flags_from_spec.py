# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The mapping from spec and plan fields to Megatron's flags."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from seatrial.engines.engine import ArgumentValue
from seatrial.planning.plan import Plan, weights_location
from seatrial.spec.addresses import tokenizer_name
from seatrial.spec.model import Activation, Norm, Positions
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.training import DecayStyle, Precision

VOCAB_MULTIPLE = 128
"""Megatron pads the vocabulary to a multiple of this times tp_size."""


@dataclass(frozen=True, slots=True)
class Flag:
    """An engine flag and the source of its value."""

    name: str
    """The flag without leading dashes."""
    field: str
    """The spec field that sets the flag; empty if no field sets it."""
    value: Callable[[Plan], ArgumentValue]


_POSITIONS = {
    Positions.LEARNED: "learned_absolute",
    Positions.ROPE: "rope",
    Positions.ALIBI: "none",
}
_NORMS = {Norm.LAYERNORM: "LayerNorm", Norm.RMSNORM: "RMSNorm"}
_STYLES = {style: str(style) for style in DecayStyle} | {DecayStyle.WSD: "WSD"}
_HALF = (Precision.BF16, Precision.FP8, Precision.MXFP8, Precision.NVFP4)
_FP8_RECIPES = {Precision.FP8: "delayed", Precision.MXFP8: "mxfp8"}


def _moe[T: ArgumentValue](value: Callable[[Plan], T]) -> Callable[[Plan], T | None]:
    """Return the value for a mixture of experts, and None for a dense model."""
    return lambda plan: value(plan) if plan.model.architecture.is_moe else None


def _experts(plan: Plan, field: str) -> int | float | None:
    moe = plan.model.architecture.moe
    return None if moe is None else getattr(moe, field)


def _layer_pattern(plan: Plan) -> str | None:
    """Return the pattern of layers with experts, if the leading layers have no experts."""
    moe = plan.model.architecture.moe
    if moe is None or not moe.dense_layers:
        return None
    return f"([0]*{moe.dense_layers}+[1]*{plan.model.architecture.layers - moe.dense_layers})"


def _positions_length(plan: Plan) -> int:
    """Return the length of the position table; without a table, at least the sequence length."""
    model = plan.model.architecture
    if model.positions is Positions.LEARNED:
        return model.max_positions
    return max(model.max_positions, plan.model.sequence_length)


def _counts_samples(plan: Plan) -> bool:
    """True if the run's length is in samples. The engine then needs the schedule in samples too."""
    return plan.spec.training.samples is not None


def _iterations(samples: Callable[[Plan], int]) -> Callable[[Plan], int | None]:
    """Return a part of the schedule in steps, or None if the run counts samples."""
    return lambda plan: (
        None if _counts_samples(plan) else samples(plan) // plan.batch.global_batch_size
    )


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
    # The model.
    Flag("num-layers", "model.dimensions.layers", lambda p: p.model.architecture.layers),
    Flag("hidden-size", "model.dimensions.hidden_size", lambda p: p.model.architecture.hidden_size),
    Flag(
        "ffn-hidden-size",
        "model.dimensions.ffn_hidden_size",
        lambda p: p.model.architecture.ffn_hidden_size,
    ),
    Flag("num-attention-heads", "model.dimensions.heads", lambda p: p.model.architecture.heads),
    Flag(
        "group-query-attention",
        "model.dimensions.kv_heads",
        lambda p: p.model.architecture.kv_heads < p.model.architecture.heads,
    ),
    Flag(
        "num-query-groups",
        "model.dimensions.kv_heads",
        lambda p: (
            p.model.architecture.kv_heads
            if p.model.architecture.kv_heads < p.model.architecture.heads
            else None
        ),
    ),
    Flag("kv-channels", "model.dimensions.head_dim", lambda p: p.model.architecture.head_dim),
    Flag("max-position-embeddings", "model.dimensions.max_positions", _positions_length),
    Flag(
        "position-embedding-type",
        "model.dimensions.positions",
        lambda p: _POSITIONS[p.model.architecture.positions],
    ),
    Flag(
        "rotary-base",
        "model.dimensions.rope_theta",
        lambda p: (
            int(p.model.architecture.rope_theta)
            if p.model.architecture.positions is Positions.ROPE
            else None
        ),
    ),
    Flag(
        "normalization",
        "model.dimensions.norm",
        lambda p: _NORMS.get(p.model.architecture.norm, "LayerNorm"),
    ),
    Flag("qk-layernorm", "model.dimensions.qk_norm", lambda p: p.model.architecture.qk_norm),
    Flag(
        "swiglu",
        "model.dimensions.activation",
        lambda p: p.model.architecture.activation is Activation.SWIGLU,
    ),
    Flag(
        "disable-bias-linear",
        "model.dimensions.linear_bias",
        lambda p: not p.model.architecture.linear_bias,
    ),
    Flag("add-qkv-bias", "model.dimensions.qkv_bias", lambda p: p.model.architecture.qkv_bias),
    Flag(
        "untie-embeddings-and-output-weights",
        "model.dimensions.tied_embeddings",
        lambda p: not p.model.architecture.tied_embeddings,
    ),
    Flag("vocab-size", "model.dimensions.vocab_size", lambda p: p.model.architecture.vocab_size),
    Flag("make-vocab-size-divisible-by", "", lambda p: VOCAB_MULTIPLE),
    # Otherwise the engine pads the tokenizer's vocabulary, which may be smaller than the model's.
    Flag("padded-vocab-size", "model.dimensions.vocab_size", lambda p: p.model.padded_vocab_size),
    Flag("num-experts", "model.dimensions.moe.experts", lambda p: _experts(p, "experts")),
    Flag("moe-router-topk", "model.dimensions.moe.top_k", lambda p: _experts(p, "top_k")),
    Flag(
        "moe-ffn-hidden-size",
        "model.dimensions.moe.expert_ffn_hidden_size",
        lambda p: _experts(p, "expert_ffn_hidden_size"),
    ),
    Flag(
        "moe-shared-expert-intermediate-size",
        "model.dimensions.moe.shared_expert_ffn_hidden_size",
        lambda p: _experts(p, "shared_expert_ffn_hidden_size") or None,
    ),
    Flag("moe-layer-freq", "model.dimensions.moe.dense_layers", _layer_pattern),
    Flag(
        "moe-aux-loss-coeff",
        "model.dimensions.moe.aux_loss_coefficient",
        lambda p: _experts(p, "aux_loss_coefficient"),
    ),
    Flag(
        "moe-router-load-balancing-type",
        "",
        _moe(lambda p: "aux_loss"),
    ),
    # The engine requires this flag if each token uses only one expert.
    Flag(
        "moe-router-pre-softmax",
        "",
        lambda p: _experts(p, "top_k") == 1,
    ),
    Flag("moe-token-dispatcher-type", "", _moe(lambda p: "alltoall")),
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
    Flag("train-samples", "training.samples", lambda p: p.spec.training.samples),
    Flag(
        "train-iters",
        "training.steps",
        lambda p: None if _counts_samples(p) else p.length.steps,
    ),
    Flag("seq-length", "training.sequence_length", lambda p: p.model.sequence_length),
    Flag("micro-batch-size", "training.micro_batch_size", lambda p: p.batch.micro_batch_size),
    Flag("global-batch-size", "training.global_batch_size", lambda p: p.batch.global_batch_size),
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
        "",
        lambda p: "linear" if p.schedule.anneal_samples else None,
    ),
    Flag("adam-beta1", "training.optimizer.beta1", lambda p: p.spec.training.optimizer.beta1),
    Flag("adam-beta2", "training.optimizer.beta2", lambda p: p.spec.training.optimizer.beta2),
    Flag("adam-eps", "training.optimizer.epsilon", lambda p: p.spec.training.optimizer.epsilon),
    Flag(
        "weight-decay",
        "training.optimizer.weight_decay",
        lambda p: p.spec.training.optimizer.weight_decay,
    ),
    Flag(
        "clip-grad",
        "training.optimizer.clip_grad_norm",
        lambda p: p.spec.training.optimizer.clip_grad_norm,
    ),
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
        lambda p: p.layout.vp_size if p.layout.vp_size > 1 else None,
    ),
    Flag("context-parallel-size", "parallelism.cp_size", lambda p: p.layout.cp_size),
    Flag("expert-model-parallel-size", "parallelism.ep_size", _moe(lambda p: p.layout.ep_size)),
    Flag("expert-tensor-parallel-size", "parallelism.etp_size", _moe(lambda p: p.layout.etp_size)),
    Flag(
        "decoder-first-pipeline-num-layers",
        "parallelism.first_stage_layers",
        lambda p: p.spec.parallelism.first_stage_layers,
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
    Flag("sequence-parallel", "parallelism.sequence_parallel", lambda p: p.sequence_parallel),
    Flag("use-distributed-optimizer", "parallelism.sharding", _sharded),
    Flag("use-megatron-fsdp", "parallelism.sharding", _fsdp),
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
    # Otherwise the distributed optimizer's checkpoints load only in the layout that saved them.
    Flag("dist-ckpt-optim-fully-reshardable", "parallelism.sharding", _sharded),
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
