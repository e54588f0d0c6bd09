# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The model section: MPT from its dimensions, other families through `hf_causal_lm`.

Names and defaults are from `llmfoundry/models/mpt/configuration_mpt.py` and
`llmfoundry/models/hf/hf_causal_lm.py` in LLM Foundry 0.22.0.
"""

from seatrial.engines.engine import Arguments, ArgumentValue
from seatrial.planning.plan import Plan
from seatrial.spec.addresses import tokenizer_name
from seatrial.spec.model import Activation, Architecture, Family, Norm, Positions
from seatrial.spec.parallelism import Sharding

NORMS = {
    Norm.LAYERNORM: "low_precision_layernorm",
    Norm.LAYERNORM_NO_BIAS: "low_precision_layernorm",
    Norm.RMSNORM: "low_precision_rmsnorm",
}
"""MPT's norms. `no_bias` controls the biases of norms and of linear layers."""


def model_settings(plan: Plan) -> Arguments:
    """Return the model settings for LLM Foundry."""
    # With the meta device, each rank creates only its own shard of the weights.
    device = "meta" if plan.sharding is Sharding.FSDP else "cpu"
    if plan.model.architecture.family is Family.MPT:
        return {"model.name": "mpt_causal_lm", "model.init_device": device} | _mpt(plan)
    return {"model.name": "hf_causal_lm", "model.init_device": device} | _hugging_face(plan)


def _mpt(plan: Plan) -> Arguments:
    """Return the settings that differ from MPT's defaults."""
    model = plan.model.architecture
    grouped = model.kv_heads < model.heads
    return {
        "model.d_model": model.hidden_size,
        "model.n_heads": model.heads,
        "model.n_layers": model.layers,
        **_inner_size(model),
        "model.max_seq_len": model.max_positions,
        "model.vocab_size": plan.model.padded_vocab_size,
        "model.attn_config.attn_impl": "flash",
        "model.attn_config.attn_type": "grouped_query_attention" if grouped else None,
        "model.attn_config.kv_n_heads": model.kv_heads if grouped else None,
        "model.attn_config.attn_pdrop": plan.spec.training.attention_dropout or None,
        "model.resid_pdrop": plan.spec.training.hidden_dropout or None,
        "model.emb_pdrop": plan.spec.training.hidden_dropout or None,
        "model.norm_type": None if model.norm is Norm.LAYERNORM else NORMS[model.norm],
        "model.no_bias": None if model.linear_bias else True,
        "model.tie_word_embeddings": None if model.tied_embeddings else False,
        **_positions(model),
        **_feed_forward(model),
        **_initial(plan),
    }


def _positions(model: Architecture) -> Arguments:
    if model.positions is Positions.ALIBI:
        return {"model.attn_config.alibi": True}
    if model.positions is Positions.ROPE:
        theta = int(model.rope_theta)
        return {"model.attn_config.rope": True, "model.attn_config.rope_theta": theta}
    return {}


def _inner_size(model: Architecture) -> Arguments:
    """Return the feed-forward size, as a ratio if the ratio is exact.

    LLM Foundry rejects a ratio whose product is not an integer, and a ratio such as 1920 / 704 is
    rounded.
    """
    ratio = model.ffn_hidden_size / model.hidden_size
    if ratio * model.hidden_size != model.ffn_hidden_size:
        return {"model.ffn_config.ffn_hidden_size": model.ffn_hidden_size}
    return {"model.expansion_ratio": int(ratio) if ratio.is_integer() else ratio}


def _feed_forward(model: Architecture) -> Arguments:
    if model.activation is not Activation.SWIGLU:
        return {}
    act = "model.ffn_config.ffn_act_fn.name"
    return {"model.ffn_config.ffn_type": "mptglu", act: "silu"}


def _initial(plan: Plan) -> Arguments:
    """Return the standard deviation of the initial weights if the spec sets it, or MPT's scheme."""
    if "init_std" not in plan.spec.training.model_fields_set:
        return {}
    name, spread = "model.init_config.name", "model.init_config.init_std"
    return {name: "baseline_", spread: plan.spec.training.init_std}


def _hugging_face(plan: Plan) -> Arguments:
    """Return a randomly initialised model with the Hub's own code and the plan's dimensions.

    The repository is that of the tokenizer, which belongs to the same family. The dimensions
    override values in its config.json.
    """
    model = plan.model.architecture
    override = "model.config_overrides."
    dimensions: dict[str, ArgumentValue] = {
        "num_hidden_layers": model.layers,
        "hidden_size": model.hidden_size,
        "intermediate_size": model.ffn_hidden_size,
        "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads,
        "max_position_embeddings": model.max_positions,
        "rope_theta": model.rope_theta,
        "tie_word_embeddings": model.tied_embeddings,
        "attention_dropout": plan.spec.training.attention_dropout or None,
    }
    if "init_std" in plan.spec.training.model_fields_set:
        dimensions["initializer_range"] = plan.spec.training.init_std
    if model.heads * model.head_dim != model.hidden_size:
        dimensions["head_dim"] = model.head_dim
    return {
        "model.pretrained_model_name_or_path": tokenizer_name(plan.model.tokenizer)[0],
        "model.pretrained": False,
        "model.use_flash_attention_2": True,
        **{f"{override}{name}": value for name, value in dimensions.items()},
    }
