# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which Megatron tensor contains which Hugging Face tensor.

If all layers have the same tensors, the engine stacks them: the first axis of `decoder.layers.X` is
the layer, and the next axis of an expert's tensor is the expert. Otherwise each layer has tensors
of its own, `decoder.layers.3.X`. The names are from megatron-core 0.19.2. Its local layers and
Transformer Engine's layers have the same names, except where `also` is set. Hugging Face names are
those that transformers 5.22.2 writes (`conversion_mapping.py` renames experts on load).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from seatrial.checkpoints.exchange.weight_map import MappedTensor, Shape, TensorPart
from seatrial.huggingface.config import HubModel
from seatrial.spec.model import Architecture, Norm, Positions

EMBEDDING, OUTPUT = "embedding.word_embeddings.weight", "output_layer.weight"
HEADS = {"q_proj": TensorPart.QUERY, "k_proj": TensorPart.KEY, "v_proj": TensorPart.VALUE}
GATED = {"gate_proj": TensorPart.GATE, "up_proj": TensorPart.UP}
LATENT = (
    ("linear_q_down_proj.weight", "q_a_proj.weight", ""),
    ("q_layernorm.weight", "q_a_layernorm.weight", "linear_q_up_proj.layer_norm_weight"),
    ("linear_q_up_proj.weight", "q_b_proj.weight", ""),
    ("linear_kv_down_proj.weight", "kv_a_proj_with_mqa.weight", ""),
    ("kv_layernorm.weight", "kv_a_layernorm.weight", "linear_kv_up_proj.layer_norm_weight"),
    ("linear_kv_up_proj.weight", "kv_b_proj.weight", ""),
)
"""The engine's local name, Hugging Face's name, and the name of Transformer Engine's layers."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The names that a model type uses inside a layer."""

    layer: str = "model.layers.{layer}"
    embedding: str = "model.embed_tokens.weight"
    final_norm: str = "model.norm"
    norms: tuple[str, str] = ("input_layernorm", "post_attention_layernorm")
    """The norms before attention and before the feed-forward block."""
    heads: str = ""
    """One tensor for queries, keys and values; empty if there are three."""
    projection: str = "self_attn.o_proj"
    up: str = ""
    """One tensor for the up projections; empty if a gated block has two."""
    down: str = "mlp.down_proj"
    router: str = "mlp.gate"
    expert: str = "mlp.experts.{expert}"
    expert_parts: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
    transposed: bool = False
    """True if matrices are transposed."""


PLAIN = Dialect()
DIALECTS = {
    "gpt2": Dialect(
        layer="transformer.h.{layer}",
        embedding="transformer.wte.weight",
        final_norm="transformer.ln_f",
        norms=("ln_1", "ln_2"),
        heads="attn.c_attn",
        projection="attn.c_proj",
        up="mlp.c_fc",
        down="mlp.c_proj",
        transposed=True,
    ),
    "phi3": Dialect(heads="self_attn.qkv_proj", up="mlp.gate_up_proj"),
    "nemotron": Dialect(up="mlp.up_proj"),
    "mixtral": Dialect(
        router="block_sparse_moe.gate",
        expert="block_sparse_moe.experts.{expert}",
        expert_parts=("w1", "w3", "w2"),
    ),
    "gpt_oss": Dialect(router="mlp.router"),
    "starcoder2": Dialect(up="mlp.c_fc", down="mlp.c_proj"),
}
"""Model types with other names than Llama, Qwen and DeepSeek."""


def entries(model: HubModel) -> tuple[MappedTensor, ...]:
    """Return every tensor of a model, the embedding first."""
    return tuple(_entries(model.architecture, DIALECTS.get(model.model_type, PLAIN)))


def _entries(model: Architecture, names: Dialect) -> Iterator[MappedTensor]:
    table = (model.vocab_size, model.hidden_size)
    yield MappedTensor(EMBEDDING, names.embedding, table, TensorPart.VOCABULARY)
    if model.positions is Positions.LEARNED:
        rows = (model.max_positions, model.hidden_size)
        yield MappedTensor("embedding.position_embeddings.weight", "transformer.wpe.weight", rows)
    for kind in _norm_kinds(model):
        shape = (model.hidden_size,)
        yield MappedTensor(f"decoder.final_layernorm.{kind}", f"{names.final_norm}.{kind}", shape)
    yield from _decoder(model, names)
    for index in range(model.mtp_layers):
        yield from _prediction_layer(model, names, index)
    if not model.tied_embeddings:
        yield MappedTensor(OUTPUT, "lm_head.weight", table, TensorPart.VOCABULARY)


def _norm_kinds(model: Architecture) -> tuple[str, ...]:
    return ("weight", "bias") if model.norm is Norm.LAYERNORM else ("weight",)


def _decoder(model: Architecture, names: Dialect) -> Iterator[MappedTensor]:
    every = tuple(range(model.layers))
    moe = model.moe
    sparse = tuple(filter(moe.has_experts, every)) if moe else ()
    dense = tuple(layer for layer in every if layer not in sparse)
    engine = "decoder.layers.{layer}" if sparse and dense else "decoder.layers"
    block = Block(model, names, engine, names.layer, every)
    yield from block.attention()
    if dense:
        yield from Block(model, names, engine, names.layer, dense).dense()
    if sparse:
        yield from Block(model, names, engine, names.layer, sparse).experts()


def _prediction_layer(model: Architecture, names: Dialect, index: int) -> Iterator[MappedTensor]:
    """Yield a layer of multi-token prediction, under DeepSeek's published names.

    transformers ignores these layers. They follow the others, and have what the last of them has.
    """
    engine, hub = f"mtp.layers.{index}", names.layer.format(layer=model.layers + index)
    hidden = model.hidden_size
    for ours, theirs in (
        ("enorm", "enorm"),
        ("hnorm", "hnorm"),
        ("final_layernorm", "shared_head.norm"),
    ):
        for kind in _norm_kinds(model):
            yield MappedTensor(f"{engine}.{ours}.{kind}", f"{hub}.{theirs}.{kind}", (hidden,))
    yield MappedTensor(f"{engine}.eh_proj.weight", f"{hub}.eh_proj.weight", (hidden, 2 * hidden))
    block = Block(model, names, f"{engine}.transformer_layer", hub, ())
    yield from block.attention()
    has_experts = model.moe is not None and model.moe.has_experts(model.layers - 1)
    yield from block.experts() if has_experts else block.dense()


@dataclass(frozen=True, slots=True)
class Block:
    """Some layers of a model."""

    model: Architecture
    names: Dialect
    engine: str
    """The engine's prefix."""
    hub: str
    """Hugging Face's prefix."""
    layers: tuple[int, ...]
    """The layers; empty for a layer that is not one of several."""

    def _entry(
        self,
        engine: str,
        hub: str,
        shape: Shape,
        part: TensorPart = TensorPart.WHOLE,
        also: str = "",
        experts: int = 0,
        transposed: bool | None = None,
    ) -> MappedTensor:
        turned = self.names.transposed if transposed is None else transposed
        return MappedTensor(
            f"{self.engine}.{engine}",
            f"{self.hub}.{hub}",
            shape,
            part,
            turned and len(shape) > 1,
            f"{self.engine}.{also}" if also else "",
            self.layers,
            experts,
        )

    def attention(self) -> Iterator[MappedTensor]:
        """Yield the norm before attention, and attention."""
        model = self.model
        latent = model.latent_attention
        for kind in _norm_kinds(model):
            engine = f"self_attention.linear_qkv.layer_norm_{kind}"
            if latent:
                engine = f"input_layernorm.{kind}"
            yield self._entry(engine, f"{self.names.norms[0]}.{kind}", (model.hidden_size,))
        value = latent.value_head_dim if latent else model.head_dim
        yield from self._linear(
            "self_attention.linear_proj",
            self.names.projection,
            (model.hidden_size, model.heads * value),
        )
        yield from self._latent() if latent else self._heads()
        if model.attention_sinks:
            offset = "self_attention.core_attention.softmax_offset"
            yield self._entry(offset, "self_attn.sinks", (model.heads,))

    def _linear(self, engine: str, hub: str, shape: Shape) -> Iterator[MappedTensor]:
        """Yield a matrix and its bias, if linear layers have one."""
        yield self._entry(f"{engine}.weight", f"{hub}.weight", shape)
        if self.model.linear_bias:
            yield self._entry(f"{engine}.bias", f"{hub}.bias", shape[:1])

    def _heads(self) -> Iterator[MappedTensor]:
        model = self.model
        rows = (model.heads + 2 * model.kv_heads) * model.head_dim
        kinds: dict[str, Shape] = {"weight": (rows, model.hidden_size)}
        if model.linear_bias or model.qkv_bias:
            kinds["bias"] = (rows,)
        parts = {f"self_attn.{name}": part for name, part in HEADS.items()}
        if self.names.heads:
            parts = {self.names.heads: TensorPart.ALL_HEADS}
        for kind, shape in kinds.items():
            for name, part in parts.items():
                engine = f"self_attention.linear_qkv.{kind}"
                yield self._entry(engine, f"{name}.{kind}", shape, part)
        for side in ("q", "k") if model.qk_norm else ():
            for kind in _norm_kinds(model):
                engine = f"self_attention.{side}_layernorm.{kind}"
                yield self._entry(engine, f"self_attn.{side}_norm.{kind}", (model.head_dim,))

    def _latent(self) -> Iterator[MappedTensor]:
        model, latent = self.model, self.model.latent_attention
        if latent is None or latent.q_rank is None:
            raise ValueError("latent attention without a query rank has no map")
        queries = model.heads * (latent.qk_head_dim + latent.rope_head_dim)
        keys = model.heads * (latent.qk_head_dim + latent.value_head_dim)
        shapes: tuple[Shape, ...] = (
            (latent.q_rank, model.hidden_size),
            (latent.q_rank,),
            (queries, latent.q_rank),
            (latent.kv_rank + latent.rope_head_dim, model.hidden_size),
            (latent.kv_rank,),
            (keys, latent.kv_rank),
        )
        for (engine, hub, also), shape in zip(LATENT, shapes, strict=True):
            second = f"self_attention.{also}" if also else ""
            yield self._entry(f"self_attention.{engine}", f"self_attn.{hub}", shape, also=second)

    def _norm_before_block(self, engine: str, also: str) -> Iterator[MappedTensor]:
        """Yield the norm before the feed-forward block, with both of the engine's names."""
        for kind in _norm_kinds(self.model):
            yield self._entry(
                f"{engine}{kind}",
                f"{self.names.norms[1]}.{kind}",
                (self.model.hidden_size,),
                also=f"{also}{kind}" if also else "",
            )

    def dense(self) -> Iterator[MappedTensor]:
        """Yield a dense feed-forward block and the norm before it."""
        # The engine's local layers rename this norm unless attention is latent.
        also = "pre_mlp_layernorm." if self.model.latent_attention else ""
        yield from self._norm_before_block("mlp.linear_fc1.layer_norm_", also)
        yield from self._feed_forward("mlp", "mlp", self.model.ffn_hidden_size)

    def _feed_forward(self, engine: str, hub: str, width: int) -> Iterator[MappedTensor]:
        model, names = self.model, self.names
        rows = width * (2 if model.activation.gated else 1)
        parts = {f"{hub}.{name}": part for name, part in GATED.items()}
        if names.up:
            parts = {names.up: TensorPart.WHOLE}
        kinds: dict[str, Shape] = {"weight": (rows, model.hidden_size)}
        if model.linear_bias:
            kinds["bias"] = (rows,)
        for kind, shape in kinds.items():
            for name, part in parts.items():
                yield self._entry(f"{engine}.linear_fc1.{kind}", f"{name}.{kind}", shape, part)
        down = names.down if hub == "mlp" else f"{hub}.down_proj"
        yield from self._linear(f"{engine}.linear_fc2", down, (model.hidden_size, width))

    def experts(self) -> Iterator[MappedTensor]:
        """Yield the router and the experts, and the norm before them."""
        model, moe = self.model, self.model.moe
        if moe is None:
            return
        # The engine's local layers rename this norm unless attention is latent.
        also = "" if model.latent_attention else "mlp.linear_fc1.layer_norm_"
        yield from self._norm_before_block("pre_mlp_layernorm.", also)
        shape = (moe.experts, model.hidden_size)
        yield from self._linear("mlp.router", self.names.router, shape)
        if moe.expert_bias:
            bias = f"{self.names.router}.e_score_correction_bias"
            yield self._entry("mlp.router.expert_bias", bias, (moe.experts,))
        stacked = model.attention_sinks
        yield from self._stacked_experts() if stacked else self._separate_experts()
        if moe.shared_expert_ffn_hidden_size:
            width = moe.shared_expert_ffn_hidden_size
            yield from self._feed_forward("mlp.shared_experts", "mlp.shared_experts", width)

    def _separate_experts(self) -> Iterator[MappedTensor]:
        moe = self.model.moe
        if moe is None:
            return
        width, hidden = moe.expert_ffn_hidden_size, self.model.hidden_size
        gate, up, down = self.names.expert_parts
        for fc, name, part, shape in (
            ("linear_fc1", gate, TensorPart.GATE, (2 * width, hidden)),
            ("linear_fc1", up, TensorPart.UP, (2 * width, hidden)),
            ("linear_fc2", down, TensorPart.WHOLE, (hidden, width)),
        ):
            yield self._entry(
                f"mlp.experts.experts.{fc}.weight",
                f"{self.names.expert}.{name}.weight",
                shape,
                part,
                experts=moe.experts,
            )

    def _stacked_experts(self) -> Iterator[MappedTensor]:
        """Yield gpt-oss's experts: one tensor for all, transposed, with alternating columns."""
        moe = self.model.moe
        if moe is None:
            return
        width, hidden = moe.expert_ffn_hidden_size, self.model.hidden_size
        for fc, name, part, shape in (
            ("linear_fc1", "gate_up_proj", TensorPart.ALTERNATING, (2 * width, hidden)),
            ("linear_fc2", "down_proj", TensorPart.WHOLE, (hidden, width)),
        ):
            for kind, ending, size in (("weight", "", shape), ("bias", "_bias", shape[:1])):
                yield self._entry(
                    f"mlp.experts.experts.{fc}.{kind}",
                    f"mlp.experts.{name}{ending}",
                    size,
                    part,
                    experts=moe.experts,
                    transposed=True,
                )


def modules_with_state(mapped: tuple[MappedTensor, ...]) -> dict[str, MappedTensor]:
    """Return the modules for which the engine expects state besides weights, with a tensor of each.

    Without quantisation this state is empty, but a load fails if it is missing. The engine's linear
    layers, its attention and all of Transformer Engine's modules have it.
    """
    found: dict[str, MappedTensor] = {}
    for entry in mapped:
        for name in filter(None, (entry.engine, entry.also)):
            module = name.rpartition(".")[0]
            if module.startswith(("embedding", "output_layer")) or module.endswith(".router"):
                continue
            found.setdefault(module, entry)
            if module.endswith(".linear_proj"):
                attention = module.removesuffix("linear_proj") + "core_attention"
                found.setdefault(attention, entry)
    return found
