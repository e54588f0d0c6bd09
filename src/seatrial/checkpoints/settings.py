# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The setup of a run from LLM Foundry's settings: the same whether a worker or a plan asks.

Settings are names with their sections (`model.d_model`); what is left out has MPT's default
(`llmfoundry/models/mpt/configuration_mpt.py`, LLM Foundry 0.22.0).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.checkpoints.setup import (
    COMPOSER_FSDP,
    COMPOSER_SHARDED,
    COMPOSER_WHOLE,
    DataOrder,
    Layout,
    ModelShape,
    Schedule,
    Setup,
    Versions,
)

Values = Mapping[str, Any]
"""Settings by name, with the names of their sections before."""

_PRECISIONS = {"amp_bf16": "bf16", "amp_fp16": "fp16"}
_SHARDED = "sharded"


def setup_from_settings(given: Values, versions: Versions, world_size: int) -> Setup:
    """What a checkpoint of such a run depends on."""
    # Composer turns FSDP off on a rank that is alone.
    sharded = world_size > 1 and given.get("fsdp_config.state_dict_type") == _SHARDED
    precision = str(given.get("precision") or "fp32")
    return Setup(
        layout=Layout(world_size, 1, 1, 1, 1, 1, 1, dp_size=world_size),
        model=_model(given),
        data_order=_data_order(given),
        tokenizer=str(given.get("tokenizer.name") or ""),
        precision=_PRECISIONS.get(precision, precision),
        checkpoint_format=COMPOSER_SHARDED if sharded else COMPOSER_WHOLE,
        optimizer=str(given.get("optimizer.name") or ""),
        optimizer_sharding=COMPOSER_FSDP if sharded else "none",
        global_batch_size=int(given.get("global_train_batch_size") or 0),
        versions=versions,
        schedule=_schedule(given),
    )


def flat(tree: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """Nested settings by their whole names."""
    return dict(_flat(tree, before))


def _flat(tree: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _model(values: Values) -> ModelShape:
    """The dimensions; of a model of the Hub's own code, those that the plan puts over its own."""
    if values.get("model.name") == "hf_causal_lm":
        return _hub_model(values)
    hidden, heads = _number(values, "model.d_model"), _number(values, "model.n_heads")
    grouped = values.get("model.attn_config.kv_n_heads")
    learned = not (values.get("model.attn_config.alibi") or values.get("model.attn_config.rope"))
    bias = not values.get("model.no_bias")
    inner = values.get("model.ffn_config.ffn_hidden_size")
    return ModelShape(
        layers=_number(values, "model.n_layers"),
        hidden_size=hidden,
        ffn_hidden_size=int(
            inner or round(hidden * float(values.get("model.expansion_ratio") or 4))
        ),
        heads=heads,
        kv_heads=int(grouped or heads),
        head_dim=hidden // max(1, heads),
        positions=_positions(values),
        max_positions=_number(values, "model.max_seq_len") if learned else 0,
        norm=str(values.get("model.norm_type") or "low_precision_layernorm"),
        gated=values.get("model.ffn_config.ffn_type") == "mptglu",
        linear_bias=bias,
        qkv_bias=bias,
        qk_norm=False,
        tied_embeddings=values.get("model.tie_word_embeddings", True) is not False,
        padded_vocab_size=_number(values, "model.vocab_size"),
        experts=0,
        dense_layers=0,
        expert_ffn_hidden_size=0,
        shared_expert_ffn_hidden_size=0,
    )


def _hub_model(values: Values) -> ModelShape:
    given = {
        name.removeprefix("model.config_overrides."): value
        for name, value in values.items()
        if name.startswith("model.config_overrides.")
    }
    hidden, heads = _number(given, "hidden_size"), _number(given, "num_attention_heads")
    return ModelShape(
        layers=_number(given, "num_hidden_layers"),
        hidden_size=hidden,
        ffn_hidden_size=_number(given, "intermediate_size"),
        heads=heads,
        kv_heads=_number(given, "num_key_value_heads"),
        head_dim=hidden // max(1, heads),
        positions=str(values.get("model.pretrained_model_name_or_path") or ""),
        max_positions=0,
        norm="",
        gated=True,
        linear_bias=False,
        qkv_bias=False,
        qk_norm=False,
        tied_embeddings=bool(given.get("tie_word_embeddings")),
        padded_vocab_size=0,
        experts=0,
        dense_layers=0,
        expert_ffn_hidden_size=0,
        shared_expert_ffn_hidden_size=0,
    )


def _positions(values: Values) -> str:
    for kind in ("alibi", "rope"):
        if values.get(f"model.attn_config.{kind}"):
            return kind
    return "learned"


def _data_order(values: Values) -> DataOrder:
    dataset = "train_loader.dataset."
    # In a pod `local` is the node's own copy of `remote`.
    named = {name: values[name] for name in values if name.startswith(dataset)}
    remote = {name for name in named if name.endswith(".remote") and named[name]}
    copies = {f"{name.removesuffix('remote')}local" for name in remote}
    blend = [
        str(value)
        for name, value in named.items()
        if name.endswith((".local", ".remote", ".proportion")) and value and name not in copies
    ]
    batch = _number(values, "global_train_batch_size")
    return DataOrder(
        blend=tuple(blend),
        sizes=(),
        split=str(values.get(f"{dataset}split") or ""),
        seed=_number(values, f"{dataset}shuffle_seed"),
        sequence_length=_number(values, "max_seq_len"),
        train_samples=_steps(values.get("max_duration")) * batch,
    )


def _schedule(values: Values) -> Schedule | None:
    if values.get("optimizer.lr") is None:
        return None
    batch, peak = _number(values, "global_train_batch_size"), float(values["optimizer.lr"])
    end = values.get("scheduler.t_max") or values.get("max_duration")
    return Schedule(
        peak=peak,
        minimum=float(values.get("scheduler.alpha_f") or 0.0) * peak,
        style=str(values.get("scheduler.name") or ""),
        warmup_samples=_steps(values.get("scheduler.t_warmup")) * batch,
        decay_samples=_steps(end) * batch,
    )


def _number(values: Values, name: str) -> int:
    return int(values.get(name) or 0)


def _steps(duration: object) -> int:
    """The steps of a duration in Composer's notation; 0 for one of another unit."""
    text = str(duration or "").removesuffix("ba")
    return int(text) if text.isdigit() else 0
