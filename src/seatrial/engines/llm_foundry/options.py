# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""LLM Foundry's settings: which ones exist, and which ones a spec field sets."""

from collections.abc import Mapping

from seatrial.codes.engines import EngineCode
from seatrial.engines.engine import Problem
from seatrial.naming import nearest
from seatrial.spec.engine import OptionValue

_LOADER = frozenset(
    {"name", "dataset", "drop_last", "num_workers", "pin_memory", "prefetch_factor"}
    | {"persistent_workers", "timeout"}
)
_DATASET = frozenset(
    {"max_seq_len", "token_encoding_type", "streams", "remote", "local", "split"}
    | {"download_retry", "download_timeout", "validate_hash", "keep_zip", "epoch_size"}
    | {"predownload", "cache_limit", "partition_algo", "num_canonical_nodes", "batch_size"}
    | {"shuffle", "shuffle_algo", "shuffle_seed", "shuffle_block_size", "sampling_method"}
    | {"sampling_granularity", "batching_method", "allow_unsafe_types", "replication"}
    | {"stream_name", "stream_config", "eos_token_id", "bos_token_id"}
)
_MPT = frozenset(
    {"d_model", "n_heads", "n_layers", "head_dim", "expansion_ratio", "max_seq_len"}
    | {"vocab_size", "resid_pdrop", "emb_pdrop", "learned_pos_emb", "attn_config", "ffn_config"}
    | {"init_device", "logit_scale", "no_bias", "attention_bias", "embedding_fraction"}
    | {"norm_type", "norm_eps", "use_cache", "init_config", "fc_type", "tie_word_embeddings"}
    | {"use_pad_tok_in_ffn", "block_overrides", "final_logit_softcapping"}
    | {"fuse_norm_attn_norm", "use_train_metrics", "additional_train_metrics", "loss_fn"}
)
_HUGGING_FACE = frozenset(
    {"pretrained_model_name_or_path", "pretrained", "pretrained_lora_id_or_path"}
    | {"trust_remote_code", "use_auth_token", "use_flash_attention_2", "load_in_8bit"}
    | {"config_overrides", "peft_config", "allow_embedding_resizing", "additional_eval_metrics"}
    | {"should_save_peft_only", "attn_implementation"}
)
_ATTENTION = frozenset(
    {"attn_type", "attn_pdrop", "attn_impl", "qk_ln", "qk_gn", "fused_qkv", "clip_qkv"}
    | {"softmax_scale", "attn_uses_sequence_id", "sliding_window_size", "kv_n_heads", "kv_dim"}
    | {"attn_logit_softcapping", "alibi", "alibi_bias_max", "rope", "nope", "rope_theta"}
    | {"rope_impl", "rope_dail_config", "rope_hf_config", "attn_temperature_tuning"}
    | {"seq_parallel_world_size"}
)

NAMES: dict[str, frozenset[str]] = {
    "model": _MPT | _HUGGING_FACE | {"name"},
    "model.attn_config": _ATTENTION,
    "model.ffn_config": frozenset({"ffn_type", "ffn_hidden_size", "ffn_act_fn", "fc_type"}),
    "model.init_config": frozenset(
        {"name", "fan_mode", "init_nonlinearity", "init_div_is_residual", "emb_init_std"}
        | {"emb_init_uniform_lim", "init_std", "init_gain"}
    ),
    "tokenizer": frozenset({"name", "kwargs"}),
    "optimizer": frozenset({"name", "lr", "betas", "eps", "weight_decay", "amsgrad"}),
    "scheduler": frozenset(
        {"name", "t_warmup", "t_max", "alpha", "alpha_i", "alpha_f", "scale_warmup", "t_scale"}
        | {"t_cooldown", "alpha_f_decay", "alpha_f_cooldown"}
    ),
    "train_loader": _LOADER,
    "train_loader.dataset": _DATASET,
    "eval_loader": _LOADER | {"label"},
    "eval_loader.dataset": _DATASET,
    "fsdp_config": frozenset(
        {"activation_checkpointing", "activation_checkpointing_reentrant"}
        | {"activation_cpu_offload", "auto_wrap", "te_checkpoint_wrapper", "te_shard_fp8_weight"}
        | {"backward_prefetch", "backward_prefetch_limit", "cpu_offload"}
        | {"data_parallel_shard_degree", "data_parallel_replicate_degree", "forward_prefetch"}
        | {"forward_prefetch_limit", "ignored_modules", "keep_low_precision_grads"}
        | {"limit_all_gathers", "load_monolith_rank0_only", "load_planner", "mixed_precision"}
        | {"process_group", "save_planner", "sharded_ckpt_prefix_dir", "sharding_strategy"}
        | {"state_dict_type", "sync_module_states", "use_orig_params", "verbose"}
    ),
}
"""Known names by section. Other sections, and other names in these sections, are unknown."""

WHOLE = frozenset({"fsdp_config", "tokenizer"})
"""Sections whose names are all known. Registries and the Hub can extend the other sections."""
FREE = frozenset({"metadata"})
"""Sections in which any name is valid."""


MODELLED = {
    "model": "model",
    "model.d_model": "model.dimensions.hidden_size",
    "model.n_heads": "model.dimensions.heads",
    "model.n_layers": "model.dimensions.layers",
    "model.expansion_ratio": "model.dimensions.ffn_hidden_size",
    "model.ffn_config.ffn_hidden_size": "model.dimensions.ffn_hidden_size",
    "model.max_seq_len": "model.dimensions.max_positions",
    "model.vocab_size": "model.dimensions.vocab_size",
    "model.no_bias": "model.dimensions.linear_bias",
    "model.norm_type": "model.dimensions.norm",
    "model.tie_word_embeddings": "model.dimensions.tied_embeddings",
    "model.learned_pos_emb": "model.dimensions.positions",
    "model.attn_config.alibi": "model.dimensions.positions",
    "model.attn_config.rope": "model.dimensions.positions",
    "model.attn_config.rope_theta": "model.dimensions.rope_theta",
    "model.attn_config.attn_type": "model.dimensions.kv_heads",
    "model.attn_config.kv_n_heads": "model.dimensions.kv_heads",
    "model.attn_config.attn_pdrop": "training.attention_dropout",
    "model.resid_pdrop": "training.hidden_dropout",
    "model.emb_pdrop": "training.hidden_dropout",
    "model.ffn_config.ffn_type": "model.dimensions.activation",
    "tokenizer": "data.tokenizer",
    "tokenizer.name": "data.tokenizer",
    "train_loader": "data.sources",
    "train_loader.dataset.local": "data.location",
    "train_loader.dataset.remote": "data.sources",
    "train_loader.dataset.streams": "data.sources",
    "train_loader.dataset.max_seq_len": "training.sequence_length",
    "train_loader.dataset.shuffle_seed": "training.seed",
    "eval_loader": "data.sources",
    "eval_loader.dataset.local": "data.location",
    "eval_loader.dataset.remote": "data.sources",
    "eval_loader.dataset.streams": "data.sources",
    "eval_loader.dataset.max_seq_len": "training.sequence_length",
    "eval_loaders": "data.sources",
    "max_seq_len": "training.sequence_length",
    "max_duration": "training.steps",
    "global_train_batch_size": "training.global_batch_size",
    "device_train_batch_size": "training.global_batch_size",
    "device_train_microbatch_size": "training.micro_batch_size",
    "scheduler": "training.learning_rate",
    "scheduler.name": "training.learning_rate.style",
    "scheduler.t_warmup": "training.learning_rate.warmup",
    "scheduler.t_max": "training.learning_rate.decay",
    "scheduler.alpha_f": "training.learning_rate.minimum",
    "scheduler.alpha_f_decay": "training.learning_rate.minimum",
    "scheduler.t_scale": "training.learning_rate.warmup",
    "optimizer": "training.optimizer",
    "optimizer.lr": "training.learning_rate.peak",
    "optimizer.betas": "training.optimizer.beta1",
    "optimizer.eps": "training.optimizer.epsilon",
    "optimizer.weight_decay": "training.optimizer.weight_decay",
    "algorithms.gradient_clipping.clipping_threshold": "training.optimizer.clip_grad_norm",
    "precision": "training.precision",
    "seed": "training.seed",
    "eval_interval": "training.evaluation.every_steps",
    "eval_subset_num_batches": "training.evaluation.batches",
    "fsdp_config": "parallelism.sharding",
    "fsdp_config.sharding_strategy": "parallelism.sharding",
    "fsdp_config.activation_checkpointing": "parallelism.recompute",
    "save_folder": "checkpoints.location",
    "save_interval": "checkpoints.every_steps",
    "save_num_checkpoints_to_keep": "checkpoints.keep_last",
    "load_path": "initial_weights.checkpoint",
    "run_name": "name",
    "console_log_interval": "monitoring.log_every_steps",
    "loggers.tensorboard.log_dir": "monitoring.tensorboard",
    "loggers.wandb.project": "monitoring.wandb.project",
}
"""Settings that a spec field sets, with the name of that field."""

DERIVED = {
    "save_filename": "Seatrial finds checkpoints by their file names",
    "save_latest_filename": "Seatrial finds checkpoints by their file names",
    "fsdp_config.sharded_ckpt_prefix_dir": "Seatrial finds checkpoints by their file names",
    "fsdp_config.state_dict_type": "the plan sets the checkpoint format",
    "fsdp_config.data_parallel_shard_degree": "the plan sets the sharding",
    "fsdp_config.data_parallel_replicate_degree": "the plan sets the sharding",
    "optimizer.name": "memory and weight decay are computed for AdamW",
    "save_weights_only": "a restarted run would lose its optimizer state",
    "save_ignore_keys": "a restarted run would lose part of its state",
    "load_ignore_keys": "a restarted run would lose part of its state",
    "save_overwrite": "a run would not resume from its own checkpoints",
    "autoresume": "a run would not resume from its own checkpoints",
    "only_hf_checkpoint": "the plan is for training",
    "only_composer_checkpoint": "the plan is for training",
    "tp_config": "the plan does not support LLM Foundry's tensor parallelism",
    "train_subset_num_batches": "the plan sets the number of steps",
    "n_gpus": "LLM Foundry counts the GPUs itself",
    "device_train_grad_accum": "LLM Foundry computes gradient accumulation itself",
    "variables": "the plan sets every value directly",
}
"""Settings that would contradict the plan, with the reason."""

SECTIONS = frozenset(
    {"model", "tokenizer", "optimizer", "scheduler", "train_loader", "eval_loader"}
    | {"fsdp_config", "tp_config", "eval_gauntlet", "loggers", "callbacks", "algorithms"}
    | {"profiler", "compile_config", "metadata", "variables"}
)
"""Settings that contain other settings."""

KNOWN = SECTIONS | {
    *("accumulate_train_batch_on_tokens", "autoresume", "code_paths", "console_log_interval"),
    *("cuda_load_lazy", "device_eval_batch_size", "device_train_batch_size"),
    *("device_train_grad_accum", "device_train_microbatch_size", "dist_timeout", "eval_first"),
    *("eval_gauntlet_str", "eval_interval", "eval_loaders", "eval_subset_num_batches"),
    *("expandable_segments", "flatten_metadata", "global_train_batch_size", "icl_seq_len"),
    *("icl_subset_num_batches", "icl_tasks", "icl_tasks_str", "load_ignore_keys", "load_path"),
    *("load_strict_model_weights", "load_weights_only", "log_config", "log_to_console"),
    *("max_duration", "max_seq_len", "max_split_size_mb", "n_gpus", "only_composer_checkpoint"),
    *("only_hf_checkpoint", "precision", "progress_bar", "python_log_level", "run_name"),
    *("save_filename", "save_folder", "save_ignore_keys", "save_interval"),
    *("save_latest_filename", "save_num_checkpoints_to_keep", "save_overwrite"),
    *("save_weights_only", "seed", "spin_dataloaders", "train_subset_num_batches"),
}
"""The fields of `TrainConfig` (llmfoundry/utils/config_utils.py in LLM Foundry 0.22.0)."""


def option_problems(options: Mapping[str, OptionValue]) -> list[Problem]:
    """Check the settings that a spec passes to LLM Foundry."""
    found = (_problem(name) for name in options)
    return [problem for problem in found if problem is not None]


def _problem(name: str) -> Problem | None:
    """Check one setting; None if it is correct."""
    field, section = f"engine.options.{name}", name.partition(".")[0]
    taken = _taken(name)
    if taken in MODELLED:
        rule = f"{MODELLED[taken]} already sets {name}."
        return Problem(EngineCode.MODELLED_OPTION, field, rule, f"Set {MODELLED[taken]} instead.")
    if taken in DERIVED:
        rule = f"{name} would contradict the plan: {DERIVED[taken]}."
        return Problem(EngineCode.DERIVED_OPTION, field, rule, "Remove this setting.")
    if section not in KNOWN:
        return _unknown(field, name, nearest(section, KNOWN))
    below = name.partition(".")[2]
    if below and section not in SECTIONS:
        rule = f"LLM Foundry's {section} is a value, not a section."
        return Problem(EngineCode.UNKNOWN_OPTION, field, rule, f"Set {section} itself.")
    if not below and section in SECTIONS:
        rule = f"{section} is a section of LLM Foundry's settings, not a value."
        fix = f"Set a value in this section: {section}.NAME."
        return Problem(EngineCode.OPTION_VALUE, field, rule, fix)
    return _below(field, name) if below and section not in FREE else None


def _taken(name: str) -> str:
    """Return the setting that the plan sets: this one, or one that contains it. Empty if none."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        whole = ".".join(parts[:end])
        # In a section in which the plan sets some values, a spec may set the others.
        if whole in DERIVED or (whole in MODELLED and (end > 1 or whole == name)):
            return whole
    return ""


def _below(field: str, name: str) -> Problem | None:
    """Check a setting in a section against the names in LLM Foundry's source code."""
    parts = name.split(".")
    for end in range(1, len(parts)):
        section, part = ".".join(parts[:end]), parts[end]
        if section not in NAMES:
            break
        if part not in NAMES[section]:
            match = nearest(part, NAMES[section])
            if match or section in WHOLE:
                return _unknown(field, name, f"{section}.{match}" if match else None)
            break
    else:
        return None
    rule = f"{name} is passed on unchecked: only LLM Foundry can determine if it exists."
    fix = "Check the name in LLM Foundry's documentation."
    return Problem(EngineCode.UNCHECKED_OPTION, field, rule, fix)


def _unknown(field: str, name: str, match: str | None) -> Problem:
    """Return the problem for a setting that does not exist."""
    fix = f"Did you mean {match}?" if match else "See LLM Foundry's TrainConfig for valid names."
    return Problem(EngineCode.UNKNOWN_OPTION, field, f"LLM Foundry has no setting {name}.", fix)
