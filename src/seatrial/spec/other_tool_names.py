# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Names of spec fields in Megatron, NeMo, Hugging Face, DeepSpeed and Composer."""

_PARALLELISM = {
    "tp_size": "tp tensor_parallel tensor_parallel_size tensor_model_parallel_size",
    "pp_size": "pp pipeline_parallel pipeline_parallel_size pipeline_model_parallel_size",
    "vp_size": "vp vpp virtual_pipeline_model_parallel_size num_virtual_stages_per_pipeline_rank",
    "cp_size": "cp context_parallel context_parallel_size",
    "ep_size": "ep expert_parallel expert_parallel_size expert_model_parallel_size",
    "etp_size": "etp expert_tensor_parallel_size",
    "first_stage_layers": "decoder_first_pipeline_num_layers num_layers_in_first_pipeline_stage",
    "last_stage_layers": "decoder_last_pipeline_num_layers num_layers_in_last_pipeline_stage",
    "embedding_as_layer": "account_for_embedding_in_pipeline_split",
    "loss_as_layer": "account_for_loss_in_pipeline_split",
    "pipeline_layout": "pipeline_model_parallel_layout pp_layout",
    "sharding": "zero zero_stage fsdp use_distributed_optimizer sharding_strategy",
    "recompute": "activation_checkpointing gradient_checkpointing recompute_granularity",
}
_TRAINING = {
    "steps": "train_iters train_steps max_steps num_steps iterations",
    "samples": "train_samples max_samples",
    "tokens": "train_tokens max_tokens num_tokens",
    "sequence_length": "seq_length seq_len seqlen max_seq_len max_seq_length context_length",
    "micro_batch_size": "mbs per_device_train_batch_size device_train_microbatch_size",
    "global_batch_size": "gbs global_train_batch_size train_batch_size",
    "batch_schedule": "rampup_batch_size step_batch_size_schedule",
    "learning_rate.peak": "lr max_lr base_lr",
    "learning_rate.minimum": "min_lr lr_min",
    "learning_rate.style": "lr_decay_style lr_scheduler lr_scheduler_type",
    "learning_rate.warmup.steps": "warmup_steps lr_warmup_iters lr_warmup_steps",
    "learning_rate.warmup.fraction": "lr_warmup_fraction warmup_ratio",
    "learning_rate.decay.steps": "lr_decay_iters lr_decay_steps",
    "learning_rate.anneal.steps": "wsd_decay_steps lr_wsd_decay_iters",
    "learning_rate.anneal.samples": "lr_wsd_decay_samples",
    "optimizer.clip_grad_norm": "clip_grad grad_clip gradient_clipping max_grad_norm",
    "optimizer.weight_decay": "wd",
    "optimizer.beta1": "adam_beta1",
    "optimizer.beta2": "adam_beta2",
    "optimizer.epsilon": "eps adam_eps adam_epsilon",
    "evaluation.every_steps": "eval_interval eval_steps",
    "evaluation.batches": "eval_iters",
    "init_std": "init_method_std initializer_range",
    "precision": "dtype mixed_precision",
}
_DIMENSIONS = {
    "layers": "num_layers n_layers n_layer num_hidden_layers",
    "hidden_size": "d_model n_embd",
    "heads": "num_heads n_heads n_head num_attention_heads",
    "kv_heads": "num_query_groups num_key_value_heads n_kv_heads",
    "head_dim": "kv_channels",
    "ffn_hidden_size": "intermediate_size d_ff",
    "max_positions": "max_position_embeddings n_positions",
    "rope_theta": "rotary_base",
    "tied_embeddings": "tie_word_embeddings",
    "moe.experts": "num_experts num_local_experts",
    "moe.top_k": "moe_router_topk num_experts_per_tok",
}
_CLUSTER = {
    "nodes": "num_nodes nnodes n_nodes node_count instance_count replicas",
    "processes_per_node": "gpus_per_node nproc_per_node num_gpus_per_node devices",
    "node_type": "instance_type machine_type vm_size sku",
    "image_pull_secret": "image_pull_secrets imagepullsecrets",
    "node_selector": "nodeselector node_labels node_affinity nodeaffinity affinity",
    "tolerations": "toleration taints",
    "shm": "shm_size shmsize shared_memory",
    "labels": "pod_labels",
    "annotations": "pod_annotations",
}
_CHECKPOINTS = {
    "every_steps": "save_interval save_steps",
    "location": "save save_dir checkpoint_dir save_folder",
    "keep_last": "save_total_limit",
    "asynchronous": "async async_save",
}
_SECTIONS = {
    "parallelism": _PARALLELISM,
    "training": _TRAINING,
    "model.dimensions": _DIMENSIONS,
    "cluster": _CLUSTER,
    "checkpoints": _CHECKPOINTS,
}

SYNONYMS: dict[str, tuple[str, ...]] = {
    name: (f"{section}.{field}",)
    for section, fields in _SECTIONS.items()
    for field, names in fields.items()
    for name in names.split()
} | {
    "batch_size": ("training.global_batch_size", "training.micro_batch_size"),
    "gpus": ("cluster.nodes", "cluster.processes_per_node"),
    "num_gpus": ("cluster.nodes", "cluster.processes_per_node"),
    "world_size": ("cluster.nodes", "cluster.processes_per_node"),
    "data_path": ("data.sources",),
    "dataset": ("data.sources",),
    "tokenizer_model": ("data.tokenizer",),
    "tokenizer_name": ("data.tokenizer",),
    "log_interval": ("monitoring.log_every_steps",),
    "logging_steps": ("monitoring.log_every_steps",),
}
"""The equivalent fields by the other tool's name, in lower case with underscores."""


_INEXACT = frozenset(
    [
        "replicas",
        "zero",
        "zero_stage",
        "fsdp",
        "use_distributed_optimizer",
        "sharding_strategy",
        "dtype",
        "max_tokens",
        "activation_checkpointing",
        "gradient_checkpointing",
        "train_batch_size",
        "dataset",
        "data_path",
        "save",
        "tokenizer_model",
        "tokenizer_name",
        "node_affinity",
        "nodeaffinity",
        "affinity",
        "taints",
    ]
)
"""Names that are similar to a field but not equivalent: different values, or a different unit."""


def exact_field(key: str) -> tuple[str, ...] | None:
    """Return the path of the only field that is equivalent to another tool's name."""
    meant = fields_meant(key)
    if len(meant) != 1 or _word(key) in _INEXACT:
        return None
    return tuple(meant[0].split("."))


def _word(key: str) -> str:
    return key.strip("-").lower().replace("-", "_")


def fields_meant(key: str) -> tuple[str, ...]:
    """Return the full names of the fields that correspond to another tool's name."""
    return SYNONYMS.get(_word(key), ())
