# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which Megatron tensor contains which Hugging Face tensor, by class. Data only.

The engine stacks layers: the first axis of `decoder.layers.X` is the layer, and the second axis of
an expert's tensor is the expert. The names are from megatron-core 0.19.2. Its local layers and
Transformer Engine's layers have the same names, except where `also` is set. Hugging Face names are
those that transformers 5.22.2 uses in files (`conversion_mapping.py` renames Mixtral's on load).
"""

from seatrial.checkpoints.exchange.model import HubClass, HubModel
from seatrial.checkpoints.exchange.weight_map import MappedTensor, TensorPart

EMBEDDING, OUTPUT = "embedding.word_embeddings.weight", "output_layer.weight"
_ATTENTION, _MLP = "decoder.layers.self_attention", "decoder.layers.mlp"
_EXPERTS = f"{_MLP}.experts.experts"
_LLAMA, _GPT2 = "model.layers.{layer}", "transformer.h.{layer}"

LLAMA_ENDS = (
    MappedTensor(EMBEDDING, "model.embed_tokens.weight", TensorPart.VOCABULARY),
    MappedTensor("decoder.final_layernorm.weight", "model.norm.weight"),
)
LLAMA_OUTPUT = (MappedTensor(OUTPUT, "lm_head.weight", TensorPart.VOCABULARY),)
LLAMA_ATTENTION = (
    MappedTensor(f"{_ATTENTION}.linear_qkv.layer_norm_weight", f"{_LLAMA}.input_layernorm.weight"),
    MappedTensor(
        f"{_ATTENTION}.linear_qkv.weight", f"{_LLAMA}.self_attn.q_proj.weight", TensorPart.QUERY
    ),
    MappedTensor(
        f"{_ATTENTION}.linear_qkv.weight", f"{_LLAMA}.self_attn.k_proj.weight", TensorPart.KEY
    ),
    MappedTensor(
        f"{_ATTENTION}.linear_qkv.weight", f"{_LLAMA}.self_attn.v_proj.weight", TensorPart.VALUE
    ),
    MappedTensor(f"{_ATTENTION}.linear_proj.weight", f"{_LLAMA}.self_attn.o_proj.weight"),
)
LLAMA_DENSE = (
    MappedTensor(
        f"{_MLP}.linear_fc1.layer_norm_weight", f"{_LLAMA}.post_attention_layernorm.weight"
    ),
    MappedTensor(f"{_MLP}.linear_fc1.weight", f"{_LLAMA}.mlp.gate_proj.weight", TensorPart.GATE),
    MappedTensor(f"{_MLP}.linear_fc1.weight", f"{_LLAMA}.mlp.up_proj.weight", TensorPart.UP),
    MappedTensor(f"{_MLP}.linear_fc2.weight", f"{_LLAMA}.mlp.down_proj.weight"),
)
LLAMA_BIASES = (
    MappedTensor(
        f"{_ATTENTION}.linear_qkv.bias", f"{_LLAMA}.self_attn.q_proj.bias", TensorPart.QUERY
    ),
    MappedTensor(
        f"{_ATTENTION}.linear_qkv.bias", f"{_LLAMA}.self_attn.k_proj.bias", TensorPart.KEY
    ),
    MappedTensor(
        f"{_ATTENTION}.linear_qkv.bias", f"{_LLAMA}.self_attn.v_proj.bias", TensorPart.VALUE
    ),
    MappedTensor(f"{_ATTENTION}.linear_proj.bias", f"{_LLAMA}.self_attn.o_proj.bias"),
    MappedTensor(f"{_MLP}.linear_fc1.bias", f"{_LLAMA}.mlp.gate_proj.bias", TensorPart.GATE),
    MappedTensor(f"{_MLP}.linear_fc1.bias", f"{_LLAMA}.mlp.up_proj.bias", TensorPart.UP),
    MappedTensor(f"{_MLP}.linear_fc2.bias", f"{_LLAMA}.mlp.down_proj.bias"),
)
MIXTRAL_EXPERTS = (
    MappedTensor(
        "decoder.layers.pre_mlp_layernorm.weight",
        f"{_LLAMA}.post_attention_layernorm.weight",
        also=f"{_MLP}.linear_fc1.layer_norm_weight",
    ),
    MappedTensor(f"{_MLP}.router.weight", f"{_LLAMA}.block_sparse_moe.gate.weight"),
    *(
        MappedTensor(
            f"{_EXPERTS}.{fc}.weight",
            f"{_LLAMA}.block_sparse_moe.experts.{{expert}}.{name}.weight",
            part,
        )
        for fc, name, part in (
            ("linear_fc1", "w1", TensorPart.GATE),
            ("linear_fc1", "w3", TensorPart.UP),
            ("linear_fc2", "w2", TensorPart.WHOLE),
        )
    ),
)
GPT2_ENDS = (
    MappedTensor(EMBEDDING, "transformer.wte.weight", TensorPart.VOCABULARY),
    MappedTensor("embedding.position_embeddings.weight", "transformer.wpe.weight"),
    MappedTensor("decoder.final_layernorm.weight", "transformer.ln_f.weight"),
    MappedTensor("decoder.final_layernorm.bias", "transformer.ln_f.bias"),
)
GPT2_LAYER = (
    MappedTensor(f"{_ATTENTION}.linear_qkv.layer_norm_weight", f"{_GPT2}.ln_1.weight"),
    MappedTensor(f"{_ATTENTION}.linear_qkv.layer_norm_bias", f"{_GPT2}.ln_1.bias"),
    MappedTensor(
        f"{_ATTENTION}.linear_qkv.weight",
        f"{_GPT2}.attn.c_attn.weight",
        TensorPart.ALL_HEADS,
        transposed=True,
    ),
    MappedTensor(
        f"{_ATTENTION}.linear_qkv.bias", f"{_GPT2}.attn.c_attn.bias", TensorPart.ALL_HEADS
    ),
    MappedTensor(
        f"{_ATTENTION}.linear_proj.weight", f"{_GPT2}.attn.c_proj.weight", transposed=True
    ),
    MappedTensor(f"{_ATTENTION}.linear_proj.bias", f"{_GPT2}.attn.c_proj.bias"),
    MappedTensor(f"{_MLP}.linear_fc1.layer_norm_weight", f"{_GPT2}.ln_2.weight"),
    MappedTensor(f"{_MLP}.linear_fc1.layer_norm_bias", f"{_GPT2}.ln_2.bias"),
    MappedTensor(f"{_MLP}.linear_fc1.weight", f"{_GPT2}.mlp.c_fc.weight", transposed=True),
    MappedTensor(f"{_MLP}.linear_fc1.bias", f"{_GPT2}.mlp.c_fc.bias"),
    MappedTensor(f"{_MLP}.linear_fc2.weight", f"{_GPT2}.mlp.c_proj.weight", transposed=True),
    MappedTensor(f"{_MLP}.linear_fc2.bias", f"{_GPT2}.mlp.c_proj.bias"),
)


def entries(model: HubModel) -> tuple[MappedTensor, ...]:
    """Return every tensor of a model, grouped by the engine's tensor."""
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
"""Modules in a layer for which the engine or Transformer Engine expects state in addition to
weights. Without quantisation this state is empty, but a load fails if it is missing."""
