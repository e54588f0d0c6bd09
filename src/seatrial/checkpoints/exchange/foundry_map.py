# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which tensor of LLM Foundry's holds which tensor of Hugging Face's, by class; data.

Composer puts `model.` before the names of the model that it trains. A model of Hugging Face's own
code has its own names behind that; MPT's are those of `llmfoundry/models/mpt` of LLM Foundry
0.22.0, where queries, keys and values of all heads follow each other in one tensor.
"""

from seatrial.checkpoints.exchange.key_map import Entry, Part, entries
from seatrial.checkpoints.exchange.model import HubClass, HubModel

BEFORE = "model."
"""What Composer puts before every name."""

_TOP = f"{BEFORE}transformer"
_BLOCK = f"{_TOP}.blocks.{{layer}}"
_MPT = "transformer.blocks.{layer}"
_GPT2 = "transformer.h.{layer}"
_LLAMA = "model.layers.{layer}"

MPT_WEIGHTS = (
    Entry(f"{_TOP}.wte.weight", "transformer.wte.weight"),
    Entry(f"{_TOP}.norm_f.weight", "transformer.norm_f.weight"),
    *(
        Entry(f"{_BLOCK}.{name}.weight", f"{_MPT}.{name}.weight")
        for name in ("norm_1", "attn.Wqkv", "attn.out_proj", "norm_2")
    ),
    *(
        Entry(f"{_BLOCK}.ffn.{name}.weight", f"{_MPT}.ffn.{name}.weight")
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
"""The modules of a block, and GPT-2's; its matrices lie the other way round."""
GPT2_WEIGHTS = (
    Entry(f"{_TOP}.wte.weight", "transformer.wte.weight"),
    Entry(f"{_TOP}.wpe.weight", "transformer.wpe.weight"),
    Entry(f"{_TOP}.norm_f.weight", "transformer.ln_f.weight"),
    Entry(f"{_TOP}.norm_f.bias", "transformer.ln_f.bias"),
    *(
        Entry(
            f"{_BLOCK}.{ours}.{kind}",
            f"{_GPT2}.{theirs}.{kind}",
            transposed=kind == "weight" and not ours.startswith("norm"),
        )
        for ours, theirs in GPT2_NAMES.items()
        for kind in ("weight", "bias")
    ),
)
LLAMA_WEIGHTS = (
    Entry(f"{_TOP}.wte.weight", "model.embed_tokens.weight"),
    Entry(f"{_TOP}.norm_f.weight", "model.norm.weight"),
    Entry(f"{_BLOCK}.norm_1.weight", f"{_LLAMA}.input_layernorm.weight"),
    Entry(f"{_BLOCK}.attn.Wqkv.weight", f"{_LLAMA}.self_attn.q_proj.weight", Part.QUERY_ROWS),
    Entry(f"{_BLOCK}.attn.Wqkv.weight", f"{_LLAMA}.self_attn.k_proj.weight", Part.KEY_ROWS),
    Entry(f"{_BLOCK}.attn.Wqkv.weight", f"{_LLAMA}.self_attn.v_proj.weight", Part.VALUE_ROWS),
    Entry(f"{_BLOCK}.attn.out_proj.weight", f"{_LLAMA}.self_attn.o_proj.weight"),
    Entry(f"{_BLOCK}.norm_2.weight", f"{_LLAMA}.post_attention_layernorm.weight"),
    Entry(f"{_BLOCK}.ffn.gate_proj.weight", f"{_LLAMA}.mlp.gate_proj.weight"),
    Entry(f"{_BLOCK}.ffn.up_proj.weight", f"{_LLAMA}.mlp.up_proj.weight"),
    Entry(f"{_BLOCK}.ffn.down_proj.weight", f"{_LLAMA}.mlp.down_proj.weight"),
)
OUTPUT = Entry(f"{BEFORE}lm_head.weight", "lm_head.weight")
MPT_AS = {
    HubClass.MPT: MPT_WEIGHTS,
    HubClass.GPT2: GPT2_WEIGHTS,
    HubClass.LLAMA: LLAMA_WEIGHTS,
}
"""The classes that have the parts of some MPT."""


def mpt_entries(model: HubModel) -> tuple[Entry, ...]:
    """Every tensor of an MPT, under the names of the class that has its parts."""
    return MPT_AS[model.kind] + (() if model.tied_embeddings else (OUTPUT,))


def same_entries(model: HubModel) -> tuple[Entry, ...]:
    """Every tensor of a model of Hugging Face's own code, which is saved under its own name."""
    found = []
    for entry in entries(model):
        name, also = f"{BEFORE}{entry.hub}", ""
        if model.tied_embeddings and entry.hub == "model.embed_tokens.weight":
            # Of tied embeddings a save has both names, for one tensor.
            name, also = OUTPUT.engine, name
        found.append(Entry(name, entry.hub, also=also))
    return tuple(found)
