# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Names of LLM Foundry's settings, section by section, as far as its sources list them.

Read from LLM Foundry 0.22.0, Composer 0.32.1 and streaming 0.12.0: the parameters of `MPTConfig`,
`ComposerMPTCausalLM`, `ComposerHFCausalLM`, `build_text_dataloader`, `StreamingTextDataset`,
`DecoupledAdamW`, `FSDPConfig`, of the schedulers, and the defaults of `config_defaults.py`. Of
what is not listed, such as callbacks, only LLM Foundry knows whether it exists.
"""

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
"""By section; a section that is not here, or a name below one that is none, is not known."""

WHOLE = frozenset({"fsdp_config", "tokenizer"})
"""Sections of which every name is known; to others registries and the Hub may add some."""
FREE = frozenset({"metadata"})
"""Sections in which any name is right."""
