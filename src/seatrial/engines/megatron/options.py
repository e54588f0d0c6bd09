# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Megatron's own options: which exist, and which of them a field of the spec covers."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path

from seatrial.engines.engine import EngineCode, OptionProblem
from seatrial.naming import nearest
from seatrial.spec.engine import OptionValue

MODELLED = {
    "num-layers": "model.dimensions.layers",
    "hidden-size": "model.dimensions.hidden_size",
    "ffn-hidden-size": "model.dimensions.ffn_hidden_size",
    "num-attention-heads": "model.dimensions.heads",
    "num-query-groups": "model.dimensions.kv_heads",
    "group-query-attention": "model.dimensions.kv_heads",
    "kv-channels": "model.dimensions.head_dim",
    "max-position-embeddings": "model.dimensions.max_positions",
    "position-embedding-type": "model.dimensions.positions",
    "rotary-base": "model.dimensions.rope_theta",
    "normalization": "model.dimensions.norm",
    "qk-layernorm": "model.dimensions.qk_norm",
    "swiglu": "model.dimensions.activation",
    "disable-bias-linear": "model.dimensions.linear_bias",
    "add-qkv-bias": "model.dimensions.qkv_bias",
    "untie-embeddings-and-output-weights": "model.dimensions.tied_embeddings",
    "vocab-size": "model.dimensions.vocab_size",
    "num-experts": "model.dimensions.moe.experts",
    "moe-router-topk": "model.dimensions.moe.top_k",
    "moe-ffn-hidden-size": "model.dimensions.moe.expert_ffn_hidden_size",
    "moe-shared-expert-intermediate-size": "model.dimensions.moe.shared_expert_ffn_hidden_size",
    "moe-layer-freq": "model.dimensions.moe.dense_layers",
    "moe-aux-loss-coeff": "model.dimensions.moe.aux_loss_coefficient",
    "data-path": "data.sources",
    "data-args-path": "data.sources",
    "mock-data": "data.mock",
    "split": "data.split",
    "tokenizer-type": "data.tokenizer",
    "tokenizer-model": "data.tokenizer",
    "vocab-file": "data.tokenizer",
    "merge-file": "data.tokenizer",
    "train-iters": "training.steps",
    "train-samples": "training.samples",
    "seq-length": "training.sequence_length",
    "micro-batch-size": "training.micro_batch_size",
    "global-batch-size": "training.global_batch_size",
    "lr": "training.learning_rate.peak",
    "min-lr": "training.learning_rate.minimum",
    "lr-decay-style": "training.learning_rate.style",
    "lr-warmup-iters": "training.learning_rate.warmup",
    "lr-warmup-samples": "training.learning_rate.warmup",
    "lr-warmup-fraction": "training.learning_rate.warmup",
    "lr-decay-iters": "training.learning_rate.decay",
    "lr-decay-samples": "training.learning_rate.decay",
    "weight-decay": "training.optimizer.weight_decay",
    "adam-beta1": "training.optimizer.beta1",
    "adam-beta2": "training.optimizer.beta2",
    "adam-eps": "training.optimizer.epsilon",
    "clip-grad": "training.optimizer.clip_grad_norm",
    "fp16": "training.precision",
    "bf16": "training.precision",
    "fp8-format": "training.precision",
    "fp4-format": "training.precision",
    "hidden-dropout": "training.hidden_dropout",
    "attention-dropout": "training.attention_dropout",
    "init-method-std": "training.init_std",
    "eval-interval": "training.evaluation.every_steps",
    "eval-iters": "training.evaluation.batches",
    "seed": "training.seed",
    "deterministic-mode": "training.deterministic",
    "tensor-model-parallel-size": "parallelism.tp_size",
    "pipeline-model-parallel-size": "parallelism.pp_size",
    "num-virtual-stages-per-pipeline-rank": "parallelism.vp_size",
    "num-layers-per-virtual-pipeline-stage": "parallelism.vp_size",
    "context-parallel-size": "parallelism.cp_size",
    "expert-model-parallel-size": "parallelism.ep_size",
    "expert-tensor-parallel-size": "parallelism.etp_size",
    "decoder-first-pipeline-num-layers": "parallelism.first_stage_layers",
    "decoder-last-pipeline-num-layers": "parallelism.last_stage_layers",
    "sequence-parallel": "parallelism.sequence_parallel",
    "use-distributed-optimizer": "parallelism.sharding",
    "use-megatron-fsdp": "parallelism.sharding",
    "use-torch-fsdp2": "parallelism.sharding",
    "recompute-granularity": "parallelism.recompute",
    "recompute-activations": "parallelism.recompute",
    "save": "checkpoints.location",
    "save-interval": "checkpoints.every_steps",
    "save-retain-interval": "checkpoints.keep_every_steps",
    "async-save": "checkpoints.asynchronous",
    "load": "continue_from",
    "pretrained-checkpoint": "initial_weights.checkpoint",
    "finetune": "initial_weights",
    "log-interval": "monitoring.log_every_steps",
    "tensorboard-dir": "monitoring.tensorboard",
    "wandb-project": "monitoring.wandb.project",
    "wandb-entity": "monitoring.wandb.entity",
}
"""Options that a spec sets through a field of its own, and that field."""


class Takes(StrEnum):
    """What follows an option on the engine's command line."""

    SWITCH = "switch"
    """Nothing: it is on or off."""
    VALUE = "value"
    """One value."""
    LIST = "list"
    """Any number of values."""


@cache
def known_options() -> dict[str, Takes]:
    """Every option of the engine, from the list that was read off its own parser."""
    text = (Path(__file__).parent / "options.txt").read_text()
    pairs = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {name: Takes(takes) for name, takes in pairs}


def option_problems(options: Mapping[str, OptionValue]) -> list[OptionProblem]:
    """What is wrong with options that a spec passes through."""
    found = (_problem(name, value) for name, value in options.items())
    return [problem for problem in found if problem is not None]


def _problem(name: str, value: OptionValue) -> OptionProblem | None:
    """What is wrong with one option, if anything."""
    option = name.replace("_", "-")
    if option in MODELLED:
        field = MODELLED[option]
        fix = f"Set {field} instead."
        if field.startswith("model.dimensions"):
            fix = f"Set {field} instead; a preset is replaced by its dimensions for that."
        rule = f"{name} is what {field} says."
        return OptionProblem(EngineCode.MODELLED_OPTION, name, rule, fix)
    takes = known_options().get(option)
    if takes is None:
        match = nearest(option, known_options())
        fix = f"Did you mean {match}?" if match else "Look it up in the engine's --help."
        return OptionProblem(
            EngineCode.UNKNOWN_OPTION, name, f"Megatron has no option {option}.", fix
        )
    fix = _value_fix(takes, value)
    if fix:
        rule = f"{option} takes {_TAKES[takes]}."
        return OptionProblem(EngineCode.OPTION_VALUE, name, rule, fix)
    return None


_TAKES = {
    Takes.SWITCH: "no value: it is on or off",
    Takes.VALUE: "one value",
    Takes.LIST: "a list of values",
}


def _value_fix(takes: Takes, value: OptionValue) -> str:
    """What to write instead, or nothing when the value is of the right kind."""
    if takes is Takes.SWITCH:
        return "" if value is True else "Write true, or remove the line to leave it off."
    if isinstance(value, bool):
        return "Write the value instead of true or false."
    if takes is Takes.VALUE and isinstance(value, tuple):
        return "Write one value instead of a list."
    return ""
