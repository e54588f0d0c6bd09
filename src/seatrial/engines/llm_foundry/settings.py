# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Map plan fields to LLM Foundry's settings, in the order of its published files.

The names are from `TrainConfig` (`llmfoundry/utils/config_utils.py` in LLM Foundry 0.22.0), the
order is from `scripts/train/yamls/pretrain/mpt-30b.yaml`. A name includes its section:
`optimizer.lr`.
"""

import re
from typing import Any

from seatrial.checkpoints.naming import CheckpointNaming
from seatrial.engines.engine import Arguments, ArgumentValue
from seatrial.engines.llm_foundry.data_settings import data_settings, has_evaluation
from seatrial.engines.llm_foundry.model_settings import model_settings
from seatrial.planning.plan import Plan
from seatrial.spec.parallelism import Recompute, Sharding
from seatrial.spec.training import DecayStyle, Precision
from seatrial.units import decimal_quotient
from seatrial.yaml_scalars import scalar

NAMING = CheckpointNaming("ba{step}")
"""Composer's names for its checkpoints, without leading zeros
(composer 0.32.1, utils/file_helpers.py, ensure_folder_has_no_conflicting_files)."""
PRECISIONS = {Precision.FP32: "fp32", Precision.BF16: "amp_bf16", Precision.FP16: "amp_fp16"}
SCHEDULERS = {
    DecayStyle.COSINE: "cosine_with_warmup",
    DecayStyle.LINEAR: "linear_decay_with_warmup",
    DecayStyle.CONSTANT: "constant_with_warmup",
    DecayStyle.INVERSE_SQUARE_ROOT: "inv_sqrt_with_warmup",
}


def engine_settings(plan: Plan, cache: str = "") -> Arguments:
    """Return a plan's settings, including the spec's engine options."""
    settings: Arguments = {
        "max_seq_len": plan.model.sequence_length,
        "run_name": plan.spec.name,
        **model_settings(plan),
        **data_settings(plan, cache),
        **_optimization(plan),
        **_length(plan),
        **_system(plan),
        **_sharding(plan),
        **_logging(plan),
        **_checkpoints(plan),
    }
    for name, value in plan.spec.engine.options.items():
        settings[name] = value
    return {name: value for name, value in settings.items() if value is not None}


def _optimization(plan: Plan) -> Arguments:
    optimizer = plan.spec.training.optimizer
    clips = optimizer.clip_grad_norm > 0
    return {
        **_scheduler(plan),
        "optimizer.name": "decoupled_adamw",
        "optimizer.lr": plan.schedule.peak,
        "optimizer.betas": (optimizer.beta1, optimizer.beta2),
        "optimizer.eps": optimizer.epsilon,
        # Per step, AdamW subtracts lr × decay × weight, and Composer lr ÷ peak × decay × weight
        # (composer/optim/decoupled_weight_decay.py in 0.32.1). Multiplying the decay by the peak
        # makes them equal.
        "optimizer.weight_decay": optimizer.weight_decay * plan.schedule.peak,
        "algorithms.gradient_clipping.clipping_type": "norm" if clips else None,
        "algorithms.gradient_clipping.clipping_threshold": (
            optimizer.clip_grad_norm if clips else None
        ),
    }


def _scheduler(plan: Plan) -> Arguments:
    """Return the learning-rate schedule. `alpha_f` is the minimum relative to the peak."""
    style, schedule = plan.spec.training.learning_rate.style, plan.schedule
    warmup = schedule.warmup_samples // plan.batch.global_batch_size
    found: Arguments = {
        "scheduler.name": SCHEDULERS.get(style),
        "scheduler.t_warmup": batches(warmup),
    }
    share = decimal_quotient(schedule.minimum, schedule.peak)
    if style is DecayStyle.INVERSE_SQUARE_ROOT:
        # If the scale equals the warm-up, the rate decays with 1 / sqrt(step) to the minimum. Here
        # the minimum is an offset, not a floor as in Megatron.
        scale, least = batches(max(1, warmup)), "scheduler.alpha_f_decay"
        return found | {"scheduler.t_scale": scale, "scheduler.t_cooldown": "0ba", least: share}
    if style is DecayStyle.CONSTANT:
        return found
    end = batches(schedule.decay_samples // plan.batch.global_batch_size)
    return found | {"scheduler.t_max": end, "scheduler.alpha_f": share}


def _length(plan: Plan) -> Arguments:
    evaluation, batch = plan.spec.training.evaluation, plan.batch
    evaluates = has_evaluation(plan)
    return {
        "max_duration": batches(plan.length.steps),
        "eval_interval": batches(evaluation.every_steps) if evaluates else 0,
        "eval_first": False,
        # Composer counts batches per rank; the spec counts global batches.
        "eval_subset_num_batches": evaluation.batches * batch.micro_batches if evaluates else None,
        "global_train_batch_size": batch.global_batch_size,
    }


def _system(plan: Plan) -> Arguments:
    return {
        "seed": plan.spec.training.seed,
        "device_eval_batch_size": plan.batch.micro_batch_size,
        "device_train_microbatch_size": plan.batch.micro_batch_size,
        "precision": PRECISIONS.get(plan.spec.training.precision),
    }


def _sharding(plan: Plan) -> Arguments:
    """Return the FSDP settings as in the published files; empty without FSDP.

    Activation recomputation needs FSDP, which can also run without sharding.
    """
    sharded, again = plan.sharding is Sharding.FSDP, plan.recompute is Recompute.FULL
    if not sharded and not again:
        return {}
    return {
        "fsdp_config.sharding_strategy": "FULL_SHARD" if sharded else "NO_SHARD",
        "fsdp_config.mixed_precision": "PURE",
        "fsdp_config.activation_checkpointing": again,
        "fsdp_config.activation_checkpointing_reentrant": False,
        "fsdp_config.activation_cpu_offload": False,
        "fsdp_config.limit_all_gathers": True,
        # Every rank writes its own shard; `full` would gather the model on rank 0.
        "fsdp_config.state_dict_type": "sharded" if sharded else "full",
        # Relative to the directory in `save_filename`, which is already the checkpoint directory.
        "fsdp_config.sharded_ckpt_prefix_dir": "." if sharded else None,
    }


def _logging(plan: Plan) -> Arguments:
    monitoring = plan.spec.monitoring
    board = f"{plan.checkpoint_location}/tensorboard" if monitoring.tensorboard else None
    wandb = monitoring.wandb
    return {
        "progress_bar": False,
        "log_to_console": True,
        "console_log_interval": batches(monitoring.log_every_steps),
        # The default level is debug, which prints the state of every batch.
        "python_log_level": "info",
        "callbacks.speed_monitor.window_size": 10,
        "callbacks.lr_monitor": (),
        "callbacks.memory_monitor": (),
        "callbacks.runtime_estimator": (),
        "loggers.tensorboard.log_dir": board,
        "loggers.wandb.project": wandb.project if wandb else None,
        "loggers.wandb.entity": wandb.entity if wandb else None,
        "loggers.wandb.name": plan.spec.name if wandb else None,
    }


def _checkpoints(plan: Plan) -> Arguments:
    """Return the settings to save, to retain, and to resume from the newest checkpoint."""
    start = plan.spec.initial_weights
    return {
        "save_folder": plan.checkpoint_location,
        "save_interval": batches(plan.save_every_steps),
        "save_filename": NAMING.directory.format(step="{batch}") + "/rank{rank}.pt",
        "autoresume": True,
        "load_path": start.checkpoint if start else None,
        "load_weights_only": True if start else None,
    }


def batches(steps: int) -> str:
    """Format a number of steps in Composer's notation."""
    return f"{steps}ba"


_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*|[0-9]+(ba|gb)")

OURS = "worker."
"""The prefix of settings for Seatrial's worker."""
MADE_UP = "# Seatrial's worker creates the data and the tokenizer before it trains."


def settings_words(arguments: Arguments) -> list[str]:
    """Format each setting as `model.d_model=768`, in order."""
    return [f"{name}={_flow(value)}" for name, value in arguments.items() if value is not None]


def settings_yaml(arguments: Arguments) -> str:
    """Format the settings as a file for `composer -c llmfoundry train FILE`.

    Omits the settings for Seatrial's worker, because LLM Foundry rejects unknown sections.
    """
    theirs = {name: value for name, value in arguments.items() if not name.startswith(OURS)}
    made_up = [MADE_UP] if len(theirs) < len(arguments) else []
    return "\n".join([*made_up, *_lines(_nested(theirs), "")]) + "\n"


def _nested(arguments: Arguments) -> dict[str, Any]:
    """Return the settings nested in their sections."""
    tree: dict[str, Any] = {}
    for name, value in arguments.items():
        if value is None:
            continue
        *sections, last = name.split(".")
        place = tree
        for section in sections:
            place = place.setdefault(section, {})
        place[last] = value
    return tree


def _lines(tree: dict[str, Any], indent: str) -> list[str]:
    lines = []
    for name, value in tree.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}:", *_lines(value, f"{indent}  ")]
        else:
            lines.append(f"{indent}{name}: {_flow(value)}")
    return lines


def _flow(value: ArgumentValue) -> str:
    """Format a value on one line. An empty tuple represents an empty mapping."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_flow, value))}]" if value else "{}"
    return scalar(value, _PLAIN)
