# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which LLM Foundry tensor contains which Hugging Face tensor, by class. Data only.

Composer prefixes the names of the model's tensors with `model.`. After the prefix, a model with
Hugging Face's own code has its own names. MPT's names are from `llmfoundry/models/mpt` in LLM
Foundry 0.22.0, where one tensor contains the queries, keys and values of all heads, in this order.
"""

from collections.abc import Iterator
from dataclasses import replace

from seatrial.checkpoints.exchange.model import MPT
from seatrial.checkpoints.exchange.weight_map import MappedTensor, Shape, TensorPart
from seatrial.huggingface.config import HubModel
from seatrial.spec.model import Architecture

BEFORE = "model."
"""Composer's prefix."""

_TOP = f"{BEFORE}transformer"
_BLOCK = f"{_TOP}.blocks.{{layer}}"
NAMES = {
    MPT: ("transformer.blocks.{layer}", {}),
    "gpt2": (
        "transformer.h.{layer}",
        {
            "wte": "transformer.wte",
            "wpe": "transformer.wpe",
            "norm_f": "transformer.ln_f",
            "norm_1": "ln_1",
            "attn.Wqkv": "attn.c_attn",
            "attn.out_proj": "attn.c_proj",
            "norm_2": "ln_2",
            "ffn.up_proj": "mlp.c_fc",
            "ffn.down_proj": "mlp.c_proj",
        },
    ),
    "llama": (
        "model.layers.{layer}",
        {
            "wte": "model.embed_tokens",
            "norm_f": "model.norm",
            "norm_1": "input_layernorm",
            "attn.out_proj": "self_attn.o_proj",
            "norm_2": "post_attention_layernorm",
            "ffn.gate_proj": "mlp.gate_proj",
            "ffn.up_proj": "mlp.up_proj",
            "ffn.down_proj": "mlp.down_proj",
        },
    ),
}
"""The prefix of a layer, and the modules with other names, in the classes that have some MPT."""
ROWS = {
    "q_proj": TensorPart.QUERY_ROWS,
    "k_proj": TensorPart.KEY_ROWS,
    "v_proj": TensorPart.VALUE_ROWS,
}
OUTPUT = "lm_head.weight"


def mpt_entries(model: HubModel) -> tuple[MappedTensor, ...]:
    """Return every tensor of an MPT, with the names of the class that supports it."""
    return tuple(_mpt_entries(model))


def _mpt_entries(model: HubModel) -> Iterator[MappedTensor]:
    sizes, kind = model.architecture, model.model_type
    prefix, names = NAMES[kind]
    layers = tuple(range(sizes.layers))
    kinds = ("weight", "bias") if sizes.linear_bias else ("weight",)
    for module, shape in _mpt_modules(sizes, kind):
        in_layer = "." in module or module in ("norm_1", "norm_2")
        engine = f"{_BLOCK if in_layer else _TOP}.{module}"
        hub = names.get(module, module if in_layer else f"transformer.{module}")
        hub = f"{prefix}.{hub}" if in_layer else hub
        parts = {hub: TensorPart.WHOLE}
        if kind == "llama" and module == "attn.Wqkv":
            parts = {f"{prefix}.self_attn.{name}": part for name, part in ROWS.items()}
        for ending in kinds if module not in ("wte", "wpe") else ("weight",):
            for name, part in parts.items():
                yield MappedTensor(
                    f"{engine}.{ending}",
                    f"{name}.{ending}",
                    shape if ending == "weight" else shape[:1],
                    part,
                    # GPT-2's matrices are transposed.
                    kind == "gpt2" and in_layer and ending == "weight" and len(shape) > 1,
                    layers=layers if in_layer else (),
                )
    if not sizes.tied_embeddings:
        yield MappedTensor(f"{BEFORE}{OUTPUT}", OUTPUT, (sizes.vocab_size, sizes.hidden_size))


def _mpt_modules(sizes: Architecture, kind: str) -> Iterator[tuple[str, Shape]]:
    """Yield the modules of an MPT and the shapes of their weights."""
    hidden, ffn = sizes.hidden_size, sizes.ffn_hidden_size
    heads = sizes.heads * sizes.head_dim
    yield "wte", (sizes.vocab_size, hidden)
    if kind == "gpt2":
        yield "wpe", (sizes.max_positions, hidden)
    yield "norm_f", (hidden,)
    yield "norm_1", (hidden,)
    yield "attn.Wqkv", (heads + 2 * sizes.kv_heads * sizes.head_dim, hidden)
    yield "attn.out_proj", (hidden, heads)
    yield "norm_2", (hidden,)
    if kind == "llama":
        yield "ffn.gate_proj", (ffn, hidden)
    yield "ffn.up_proj", (ffn, hidden)
    yield "ffn.down_proj", (hidden, ffn)


def same_entries(model: HubModel) -> tuple[MappedTensor, ...]:
    """Return every tensor of Hugging Face's own Llama, which is saved under its own names."""
    found = tuple(_llama_entries(model.architecture))
    if not model.architecture.tied_embeddings:
        return found
    # With tied embeddings, a checkpoint contains one tensor under both names.
    embedding = found[0]
    return (replace(embedding, engine=f"{BEFORE}{OUTPUT}", also=embedding.engine), *found[1:])


def _llama_entries(sizes: Architecture) -> Iterator[MappedTensor]:
    hidden, ffn = sizes.hidden_size, sizes.ffn_hidden_size
    heads, keys = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    table = {"model.embed_tokens": (sizes.vocab_size, hidden), "model.norm": (hidden,)}
    for name, shape in table.items():
        yield MappedTensor(f"{BEFORE}{name}.weight", f"{name}.weight", shape)
    layer: dict[str, Shape] = {
        "input_layernorm": (hidden,),
        "self_attn.q_proj": (heads, hidden),
        "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden),
        "self_attn.o_proj": (hidden, heads),
        "post_attention_layernorm": (hidden,),
        "mlp.gate_proj": (ffn, hidden),
        "mlp.up_proj": (ffn, hidden),
        "mlp.down_proj": (hidden, ffn),
    }
    layers = tuple(range(sizes.layers))
    for module, shape in layer.items():
        biased = sizes.linear_bias and len(shape) > 1
        for ending in ("weight", "bias") if biased else ("weight",):
            name = f"model.layers.{{layer}}.{module}.{ending}"
            size = shape if ending == "weight" else shape[:1]
            yield MappedTensor(f"{BEFORE}{name}", name, size, layers=layers)
    if not sizes.tied_embeddings:
        yield MappedTensor(f"{BEFORE}{OUTPUT}", OUTPUT, (sizes.vocab_size, hidden))
