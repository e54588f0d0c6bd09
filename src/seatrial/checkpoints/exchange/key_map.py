# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which tensor of Megatron's holds which tensor of Hugging Face's, by class; data.

The engine stacks layers: `decoder.layers.X` has the layer as its first axis, and an expert's
tensor the expert as its second. Its names are those of megatron-core 0.19.2, the same for its local
layers and for Transformer Engine's but where `also` says otherwise. Those of Hugging Face are of
transformers 5.22.2, in the form that files have (`conversion_mapping.py` renames Mixtral's while
loading).
"""

from dataclasses import dataclass
from enum import StrEnum

from seatrial.checkpoints.exchange.model import HubClass, HubModel


class Part(StrEnum):
    """What of an engine's tensor makes one of Hugging Face's."""

    WHOLE = "whole"
    """All of it."""
    VOCABULARY = "vocabulary"
    """The rows of the tokenizer's entries; padding is left out."""
    QUERY = "query"
    """Of each group of heads, the queries."""
    KEY = "key"
    """Of each group of heads, the keys."""
    VALUE = "value"
    """Of each group of heads, the values."""
    ALL_HEADS = "all heads"
    """Queries of all heads, then keys of all, then values; the engine has them head by head."""
    GATE = "gate"
    """The first half of the rows: what goes through the non-linearity."""
    UP = "up"
    """The second half of the rows."""
    QUERY_ROWS = "query rows"
    """Queries of all heads, where keys and values of all follow."""
    KEY_ROWS = "key rows"
    """Keys of all heads, which come after the queries."""
    VALUE_ROWS = "value rows"
    """Values of all heads, which come last."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor on both sides."""

    engine: str
    """Its name in a checkpoint; where it names no layer, it is stacked over layers and experts."""
    hub: str
    """Its name in a file of Hugging Face's, with the layer and the expert to be filled in."""
    part: Part = Part.WHOLE
    """What of the engine's tensor it is."""
    transposed: bool = False
    """Whether rows and columns change places."""
    also: str = ""
    """Another name of the engine's for the same tensor, where its local layers have one."""

    @property
    def repeated(self) -> int:
        """Over what there are many of Hugging Face's: nothing, layers, or layers and experts."""
        return ("{layer}" in self.hub) + ("{expert}" in self.hub)

    @property
    def stacked(self) -> int:
        """Leading axes of the engine's tensor: none, the layer, or the layer and the expert."""
        return 0 if "{layer}" in self.engine else self.repeated


EMBEDDING, OUTPUT = "embedding.word_embeddings.weight", "output_layer.weight"
_ATTENTION, _MLP = "decoder.layers.self_attention", "decoder.layers.mlp"
_EXPERTS = f"{_MLP}.experts.experts"
_LLAMA, _GPT2 = "model.layers.{layer}", "transformer.h.{layer}"

LLAMA_ENDS = (
    Entry(EMBEDDING, "model.embed_tokens.weight", Part.VOCABULARY),
    Entry("decoder.final_layernorm.weight", "model.norm.weight"),
)
LLAMA_OUTPUT = (Entry(OUTPUT, "lm_head.weight", Part.VOCABULARY),)
LLAMA_ATTENTION = (
    Entry(f"{_ATTENTION}.linear_qkv.layer_norm_weight", f"{_LLAMA}.input_layernorm.weight"),
    Entry(f"{_ATTENTION}.linear_qkv.weight", f"{_LLAMA}.self_attn.q_proj.weight", Part.QUERY),
    Entry(f"{_ATTENTION}.linear_qkv.weight", f"{_LLAMA}.self_attn.k_proj.weight", Part.KEY),
    Entry(f"{_ATTENTION}.linear_qkv.weight", f"{_LLAMA}.self_attn.v_proj.weight", Part.VALUE),
    Entry(f"{_ATTENTION}.linear_proj.weight", f"{_LLAMA}.self_attn.o_proj.weight"),
)
LLAMA_DENSE = (
    Entry(f"{_MLP}.linear_fc1.layer_norm_weight", f"{_LLAMA}.post_attention_layernorm.weight"),
    Entry(f"{_MLP}.linear_fc1.weight", f"{_LLAMA}.mlp.gate_proj.weight", Part.GATE),
    Entry(f"{_MLP}.linear_fc1.weight", f"{_LLAMA}.mlp.up_proj.weight", Part.UP),
    Entry(f"{_MLP}.linear_fc2.weight", f"{_LLAMA}.mlp.down_proj.weight"),
)
LLAMA_BIASES = (
    Entry(f"{_ATTENTION}.linear_qkv.bias", f"{_LLAMA}.self_attn.q_proj.bias", Part.QUERY),
    Entry(f"{_ATTENTION}.linear_qkv.bias", f"{_LLAMA}.self_attn.k_proj.bias", Part.KEY),
    Entry(f"{_ATTENTION}.linear_qkv.bias", f"{_LLAMA}.self_attn.v_proj.bias", Part.VALUE),
    Entry(f"{_ATTENTION}.linear_proj.bias", f"{_LLAMA}.self_attn.o_proj.bias"),
    Entry(f"{_MLP}.linear_fc1.bias", f"{_LLAMA}.mlp.gate_proj.bias", Part.GATE),
    Entry(f"{_MLP}.linear_fc1.bias", f"{_LLAMA}.mlp.up_proj.bias", Part.UP),
    Entry(f"{_MLP}.linear_fc2.bias", f"{_LLAMA}.mlp.down_proj.bias"),
)
MIXTRAL_EXPERTS = (
    Entry(
        "decoder.layers.pre_mlp_layernorm.weight",
        f"{_LLAMA}.post_attention_layernorm.weight",
        also=f"{_MLP}.linear_fc1.layer_norm_weight",
    ),
    Entry(f"{_MLP}.router.weight", f"{_LLAMA}.block_sparse_moe.gate.weight"),
    *(
        Entry(
            f"{_EXPERTS}.{fc}.weight",
            f"{_LLAMA}.block_sparse_moe.experts.{{expert}}.{name}.weight",
            part,
        )
        for fc, name, part in (
            ("linear_fc1", "w1", Part.GATE),
            ("linear_fc1", "w3", Part.UP),
            ("linear_fc2", "w2", Part.WHOLE),
        )
    ),
)
GPT2_ENDS = (
    Entry(EMBEDDING, "transformer.wte.weight", Part.VOCABULARY),
    Entry("embedding.position_embeddings.weight", "transformer.wpe.weight"),
    Entry("decoder.final_layernorm.weight", "transformer.ln_f.weight"),
    Entry("decoder.final_layernorm.bias", "transformer.ln_f.bias"),
)
GPT2_LAYER = (
    Entry(f"{_ATTENTION}.linear_qkv.layer_norm_weight", f"{_GPT2}.ln_1.weight"),
    Entry(f"{_ATTENTION}.linear_qkv.layer_norm_bias", f"{_GPT2}.ln_1.bias"),
    Entry(
        f"{_ATTENTION}.linear_qkv.weight",
        f"{_GPT2}.attn.c_attn.weight",
        Part.ALL_HEADS,
        transposed=True,
    ),
    Entry(f"{_ATTENTION}.linear_qkv.bias", f"{_GPT2}.attn.c_attn.bias", Part.ALL_HEADS),
    Entry(f"{_ATTENTION}.linear_proj.weight", f"{_GPT2}.attn.c_proj.weight", transposed=True),
    Entry(f"{_ATTENTION}.linear_proj.bias", f"{_GPT2}.attn.c_proj.bias"),
    Entry(f"{_MLP}.linear_fc1.layer_norm_weight", f"{_GPT2}.ln_2.weight"),
    Entry(f"{_MLP}.linear_fc1.layer_norm_bias", f"{_GPT2}.ln_2.bias"),
    Entry(f"{_MLP}.linear_fc1.weight", f"{_GPT2}.mlp.c_fc.weight", transposed=True),
    Entry(f"{_MLP}.linear_fc1.bias", f"{_GPT2}.mlp.c_fc.bias"),
    Entry(f"{_MLP}.linear_fc2.weight", f"{_GPT2}.mlp.c_proj.weight", transposed=True),
    Entry(f"{_MLP}.linear_fc2.bias", f"{_GPT2}.mlp.c_proj.bias"),
)


def entries(model: HubModel) -> tuple[Entry, ...]:
    """Every tensor that a model has, those of one engine's tensor one after the other."""
    output = () if model.tied_embeddings else LLAMA_OUTPUT
    if model.kind is HubClass.GPT2:
        return (*GPT2_ENDS, *GPT2_LAYER, *output)
    feed_forward = MIXTRAL_EXPERTS if model.kind is HubClass.MIXTRAL else LLAMA_DENSE
    biases = LLAMA_BIASES if model.biases else ()
    return (*LLAMA_ENDS, *LLAMA_ATTENTION, *feed_forward, *biases, *output)


EMPTY_OBJECTS = {
    HubClass.LLAMA: ("self_attention.linear_proj", "self_attention.linear_qkv",
                     "self_attention.core_attention", "mlp.linear_fc1", "mlp.linear_fc2"),
    HubClass.GPT2: ("self_attention.linear_proj", "self_attention.linear_qkv",
                    "self_attention.core_attention", "mlp.linear_fc1", "mlp.linear_fc2"),
    HubClass.MIXTRAL: ("self_attention.linear_proj", "self_attention.linear_qkv",
                       "self_attention.core_attention", "pre_mlp_layernorm",
                       "mlp.experts.experts.linear_fc1", "mlp.experts.experts.linear_fc2"),
}  # fmt: skip
"""Modules of a layer of which the engine, or Transformer Engine, asks for a state beside their
weights. It is empty where nothing is quantised, but a load fails where it is absent."""
