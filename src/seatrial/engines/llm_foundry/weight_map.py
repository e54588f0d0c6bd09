# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which LLM Foundry tensor contains which Hugging Face tensor, by class. Data only.

Composer prefixes the names of the model's tensors with `model.`. After the prefix, a model with
Hugging Face's own code has its own names. MPT's names are from `llmfoundry/models/mpt` in LLM
Foundry 0.22.0, where one tensor contains the queries, keys and values of all heads, in this order.
"""

from seatrial.checkpoints.exchange.model import HubClass, HubModel
from seatrial.checkpoints.exchange.weight_map import MappedTensor, TensorPart

BEFORE = "model."
"""Composer's prefix."""

_TOP = f"{BEFORE}transformer"
_BLOCK = f"{_TOP}.blocks.{{layer}}"
_MPT = "transformer.blocks.{layer}"
_GPT2 = "transformer.h.{layer}"
_LLAMA = "model.layers.{layer}"

MPT_WEIGHTS = (
    MappedTensor(f"{_TOP}.wte.weight", "transformer.wte.weight"),
    MappedTensor(f"{_TOP}.norm_f.weight", "transformer.norm_f.weight"),
    *(
        MappedTensor(f"{_BLOCK}.{name}.weight", f"{_MPT}.{name}.weight")
        for name in ("norm_1", "attn.Wqkv", "attn.out_proj", "norm_2")
    ),
    *(
        MappedTensor(f"{_BLOCK}.ffn.{name}.weight", f"{_MPT}.ffn.{name}.weight")
        for name in ("up_proj", "down_proj")
    ),
)
GPT2_NAMES = {
    "norm_1": "ln_1",
    "attn.Wqkv": "attn.c_attn",
    "attn.out_proj": "attn.c_proj",
    "norm_2": "ln_2",
    "ffn.up_proj": "mlp.c_fc",
    "ffn.down_proj": "mlp.c_proj",
}
"""The modules of a block with GPT-2's names. GPT-2's matrices are transposed."""
GPT2_WEIGHTS = (
    MappedTensor(f"{_TOP}.wte.weight", "transformer.wte.weight"),
    MappedTensor(f"{_TOP}.wpe.weight", "transformer.wpe.weight"),
    MappedTensor(f"{_TOP}.norm_f.weight", "transformer.ln_f.weight"),
    MappedTensor(f"{_TOP}.norm_f.bias", "transformer.ln_f.bias"),
    *(
        MappedTensor(
            f"{_BLOCK}.{ours}.{kind}",
            f"{_GPT2}.{theirs}.{kind}",
            transposed=kind == "weight" and not ours.startswith("norm"),
        )
        for ours, theirs in GPT2_NAMES.items()
        for kind in ("weight", "bias")
    ),
)
LLAMA_WEIGHTS = (
    MappedTensor(f"{_TOP}.wte.weight", "model.embed_tokens.weight"),
    MappedTensor(f"{_TOP}.norm_f.weight", "model.norm.weight"),
    MappedTensor(f"{_BLOCK}.norm_1.weight", f"{_LLAMA}.input_layernorm.weight"),
    MappedTensor(
        f"{_BLOCK}.attn.Wqkv.weight", f"{_LLAMA}.self_attn.q_proj.weight", TensorPart.QUERY_ROWS
    ),
    MappedTensor(
        f"{_BLOCK}.attn.Wqkv.weight", f"{_LLAMA}.self_attn.k_proj.weight", TensorPart.KEY_ROWS
    ),
    MappedTensor(
        f"{_BLOCK}.attn.Wqkv.weight", f"{_LLAMA}.self_attn.v_proj.weight", TensorPart.VALUE_ROWS
    ),
    MappedTensor(f"{_BLOCK}.attn.out_proj.weight", f"{_LLAMA}.self_attn.o_proj.weight"),
    MappedTensor(f"{_BLOCK}.norm_2.weight", f"{_LLAMA}.post_attention_layernorm.weight"),
    MappedTensor(f"{_BLOCK}.ffn.gate_proj.weight", f"{_LLAMA}.mlp.gate_proj.weight"),
    MappedTensor(f"{_BLOCK}.ffn.up_proj.weight", f"{_LLAMA}.mlp.up_proj.weight"),
    MappedTensor(f"{_BLOCK}.ffn.down_proj.weight", f"{_LLAMA}.mlp.down_proj.weight"),
)
OUTPUT = MappedTensor(f"{BEFORE}lm_head.weight", "lm_head.weight")
MPT_AS = {
    HubClass.MPT: MPT_WEIGHTS,
    HubClass.GPT2: GPT2_WEIGHTS,
    HubClass.LLAMA: LLAMA_WEIGHTS,
}
"""The classes that support some MPT configurations."""


def mpt_entries(model: HubModel) -> tuple[MappedTensor, ...]:
    """Return every tensor of an MPT, with the names of the class that supports it."""
    return MPT_AS[model.kind] + (() if model.tied_embeddings else (OUTPUT,))


LLAMA_NAMES = (
    "model.embed_tokens.weight",
    "model.norm.weight",
    f"{_LLAMA}.input_layernorm.weight",
    *(f"{_LLAMA}.self_attn.{name}.weight" for name in ("q_proj", "k_proj", "v_proj", "o_proj")),
    f"{_LLAMA}.post_attention_layernorm.weight",
    *(f"{_LLAMA}.mlp.{name}.weight" for name in ("gate_proj", "up_proj", "down_proj")),
)
LLAMA_BIASES = (
    *(f"{_LLAMA}.self_attn.{name}.bias" for name in ("q_proj", "k_proj", "v_proj", "o_proj")),
    *(f"{_LLAMA}.mlp.{name}.bias" for name in ("gate_proj", "up_proj", "down_proj")),
)


def same_entries(model: HubModel) -> tuple[MappedTensor, ...]:
    """Return every tensor of Hugging Face's own Llama, which is saved under its own names."""
    names = LLAMA_NAMES + (LLAMA_BIASES if model.biases else ())
    found = [MappedTensor(f"{BEFORE}{name}", name) for name in names]
    if not model.tied_embeddings:
        return (*found, OUTPUT)
    # With tied embeddings, a checkpoint contains one tensor under both names.
    embedding = found[0]
    return (MappedTensor(OUTPUT.engine, embedding.hub, also=embedding.engine), *found[1:])
