# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The shapes of a model's tensors in the engine's and in Hugging Face's format. Pure."""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from seatrial.checkpoints.exchange.model import HubActivation, HubModel
from seatrial.checkpoints.exchange.weight_map import MappedTensor, TensorPart
from seatrial.codes.exchange import ExchangeCode, refusal

Shape = tuple[int, ...]
MODEL_PREFIXES = ("decoder.", "embedding.", "output_layer.", "mtp.", "model.")
"""Prefixes of the model's tensors. The optimizer's tensors have different prefixes."""


@dataclass(frozen=True, slots=True)
class HubTensor:
    """A Hugging Face tensor and its source in the engine's checkpoint."""

    name: str
    shape: Shape
    entry: MappedTensor
    """The engine's tensor that contains it."""
    at: Shape
    """The layer, or the layer and the expert, in the engine's tensor; empty if not stacked."""
    engine: str
    """The name of the engine's tensor."""

    @property
    def elements(self) -> int:
        """The number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count


def engine_shape(entry: MappedTensor, model: HubModel) -> Shape:
    """Return the shape of one layer's or expert's tensor in the engine, without padding."""
    hidden, ffn = model.hidden_size, model.ffn_hidden_size
    rows = ffn * (2 if model.activation is HubActivation.SILU else 1)
    heads = model.heads * model.head_dim
    qkv = heads + 2 * model.kv_heads * model.head_dim
    module, _, kind = entry.engine.rpartition(".")
    shapes: dict[str, Shape] = {
        "word_embeddings": (model.vocab_size, hidden),
        "output_layer": (model.vocab_size, hidden),
        "position_embeddings": (model.max_positions, hidden),
        "router": (model.experts, hidden),
        "linear_qkv": (qkv, hidden),
        "linear_proj": (hidden, heads),
        "linear_fc1": (rows, hidden),
        "linear_fc2": (hidden, ffn),
        "wte": (model.vocab_size, hidden),
        "wpe": (model.max_positions, hidden),
        "embed_tokens": (model.vocab_size, hidden),
        "lm_head": (model.vocab_size, hidden),
        "Wqkv": (qkv, hidden),
        "q_proj": (heads, hidden),
        "k_proj": (model.kv_heads * model.head_dim, hidden),
        "v_proj": (model.kv_heads * model.head_dim, hidden),
        "out_proj": (hidden, heads),
        "o_proj": (hidden, heads),
        "gate_proj": (ffn, hidden),
        "up_proj": (ffn, hidden),
        "down_proj": (hidden, ffn),
    }
    whole = shapes.get(module.rpartition(".")[2])
    # Norms have no matrix. A norm that the engine fuses into the next module has a separate name.
    if whole is None or kind.startswith("layer_norm"):
        return (hidden,)
    return whole if kind == "weight" else whole[:1]


def stacked_shape(entry: MappedTensor, model: HubModel) -> Shape:
    """Return the shape of the engine's whole tensor: layers, experts, and the single shape."""
    return (model.layers, model.experts)[: entry.stacked] + engine_shape(entry, model)


def hub_shape(entry: MappedTensor, model: HubModel) -> Shape:
    """Return the shape of the Hugging Face tensor."""
    rows, *rest = engine_shape(entry, model)
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    counts = {
        TensorPart.QUERY: query,
        TensorPart.QUERY_ROWS: query,
        **dict.fromkeys(
            (
                TensorPart.KEY,
                TensorPart.VALUE,
                TensorPart.KEY_ROWS,
                TensorPart.VALUE_ROWS,
            ),
            key,
        ),
        TensorPart.GATE: rows // 2,
        TensorPart.UP: rows // 2,
    }
    shape = (counts.get(entry.part, rows), *rest)
    return shape[::-1] if entry.transposed else shape


def hub_tensors(model: HubModel, every: Iterable[MappedTensor]) -> Iterator[HubTensor]:
    """Yield every Hugging Face tensor, grouped by the engine's tensor."""
    groups: dict[str, list[MappedTensor]] = {}
    for entry in every:
        groups.setdefault(entry.engine, []).append(entry)
    for group in groups.values():
        sizes = (model.layers, model.experts)[: group[0].repeated]
        for at in product(*map(range, sizes)):
            names = dict(zip(("layer", "expert"), at, strict=False))
            for entry in group:
                yield HubTensor(
                    entry.hub.format(**names),
                    hub_shape(entry, model),
                    entry,
                    at[: entry.stacked],
                    entry.engine.format(**names),
                )


def name_in(tensor: HubTensor, names: Container[str]) -> str:
    """Return the name of the engine's tensor in a checkpoint with these names."""
    return tensor.entry.also if tensor.entry.also in names else tensor.engine


def refuse_other_tensors(
    model: HubModel, tensors: Iterable[HubTensor], shapes: Mapping[str, Shape], where: str
) -> None:
    """Reject a checkpoint whose tensors do not match the model. The embedding may have more rows.

    A model with tensors that the class has no names for does not belong to that class.
    """
    known = {name_in(tensor, shapes): tensor.entry for tensor in tensors}
    # An import writes a tensor with two names under both.
    twice = {entry.engine for entry in known.values() if entry.also in shapes} - known.keys()
    ours = {
        name: shape
        for name, shape in shapes.items()
        if name.startswith(MODEL_PREFIXES) and name not in twice
    }
    fix = "Check if the run's engine.options change the model. Such a model cannot be exported."
    for name in sorted(ours.keys() ^ known.keys()):
        rule = f"{model.kind} has no tensor for {name}, which the checkpoint contains."
        if name in known:
            rule = f"{model.kind} needs the tensor {name}, which the checkpoint does not contain."
        raise refusal(ExchangeCode.TENSORS, where, rule, fix, name)
    for name, entry in known.items():
        wanted, there = stacked_shape(entry, model), ours[name]
        padded = entry.part is TensorPart.VOCABULARY and there[0] >= wanted[0]
        if there != wanted and not (padded and there[1:] == wanted[1:]):
            rule = f"{name} has shape {there}, but the arguments imply {wanted}."
            raise refusal(ExchangeCode.TENSORS, where, rule, fix, str(there))
