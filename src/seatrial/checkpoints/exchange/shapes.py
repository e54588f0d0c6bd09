# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The tensors of a model in Hugging Face's format, and where the engine has them. Pure."""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod

from seatrial.checkpoints.exchange.model import class_name
from seatrial.checkpoints.exchange.weight_map import MappedTensor, Shape, TensorPart
from seatrial.codes.exchange import ExchangeCode, refusal
from seatrial.huggingface.config import HubModel
from seatrial.spec.model import Architecture

MODEL_PREFIXES = ("decoder.", "embedding.", "output_layer.", "mtp.", "model.")
"""Prefixes of the model's tensors. The optimizer's tensors have different prefixes."""


@dataclass(frozen=True, slots=True)
class HubTensor:
    """A Hugging Face tensor and its source in the engine's checkpoint."""

    name: str
    shape: Shape
    entry: MappedTensor
    """The engine's tensor that contains it."""
    places: tuple[Shape, ...]
    """The layer, or the layer and the expert, in the engine's tensor: one place, or one for each
    expert if this tensor contains all of them. A place is empty if the engine does not stack."""
    engine: str
    """The name of the engine's tensor."""
    also: str
    """The second name of the engine's tensor; empty if it has only one."""

    @property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def piece(self) -> Shape:
        """The shape of the part that comes from one place."""
        return self.shape[1:] if len(self.places) > 1 else self.shape


def hub_shape(entry: MappedTensor, model: Architecture) -> Shape:
    """Return the shape of one layer's or expert's tensor in Hugging Face's format."""
    rows, *rest = entry.shape
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    counts = {
        TensorPart.QUERY: query,
        TensorPart.QUERY_ROWS: query,
        TensorPart.KEY: key,
        TensorPart.VALUE: key,
        TensorPart.KEY_ROWS: key,
        TensorPart.VALUE_ROWS: key,
        TensorPart.GATE: rows // 2,
        TensorPart.UP: rows // 2,
    }
    shape = (counts.get(entry.part, rows), *rest)
    return shape[::-1] if entry.transposed else shape


def hub_tensors(model: Architecture, every: Iterable[MappedTensor]) -> Iterator[HubTensor]:
    """Yield every Hugging Face tensor, grouped by the engine's tensor."""
    groups: dict[str, list[MappedTensor]] = {}
    for entry in every:
        groups.setdefault(entry.engine, []).append(entry)
    for group in groups.values():
        yield from _tensors_of_group(model, group)


def _tensors_of_group(model: Architecture, group: list[MappedTensor]) -> Iterator[HubTensor]:
    """Yield the tensors that come from one of the engine's tensors, or from one in each layer."""
    first = group[0]
    for layer in first.layers or (None,):
        index = () if layer is None or "{layer}" in first.engine else (first.layers.index(layer),)
        experts: tuple[int | None, ...] = tuple(range(first.experts)) or (None,)
        if first.experts and "{expert}" not in first.hub:
            places = tuple((*index, expert) for expert in range(first.experts))
            for entry in group:
                yield _tensor(entry, model, layer, None, places)
            continue
        for expert in experts:
            place = index if expert is None else (*index, expert)
            for entry in group:
                yield _tensor(entry, model, layer, expert, (place,))


def _tensor(
    entry: MappedTensor,
    model: Architecture,
    layer: int | None,
    expert: int | None,
    places: tuple[Shape, ...],
) -> HubTensor:
    names = {"layer": layer, "expert": expert}
    shape = hub_shape(entry, model)
    if entry.experts and expert is None:
        shape = (entry.experts, *shape)
    engine, also = entry.engine.format(**names), entry.also.format(**names)
    return HubTensor(entry.hub.format(**names), shape, entry, places, engine, also)


def name_in(tensor: HubTensor, names: Container[str]) -> str:
    """Return the name of the engine's tensor in a checkpoint with these names."""
    return tensor.also if tensor.also in names else tensor.engine


def refuse_other_tensors(
    model: HubModel, tensors: Iterable[HubTensor], shapes: Mapping[str, Shape], where: str
) -> None:
    """Reject a checkpoint whose tensors do not match the model. The embedding may have more rows.

    A model with tensors that the class has no names for does not belong to that class.
    """
    known = {name_in(tensor, shapes): tensor for tensor in tensors}
    # An import writes a tensor with two names under both.
    twice = {tensor.engine for tensor in known.values() if tensor.also in shapes} - known.keys()
    ours = {
        name: shape
        for name, shape in shapes.items()
        if name.startswith(MODEL_PREFIXES) and name not in twice
    }
    fix = "Check if the run's engine.options change the model. Such a model cannot be exported."
    kind = class_name(model.model_type)
    for name in sorted(ours.keys() ^ known.keys()):
        rule = f"{kind} has no tensor for {name}, which the checkpoint contains."
        if name in known:
            rule = f"{kind} needs the tensor {name}, which the checkpoint does not contain."
        raise refusal(ExchangeCode.TENSORS, where, rule, fix, name)
    for name, tensor in known.items():
        wanted, there = tensor.entry.engine_shape, ours[name]
        padded = tensor.entry.part is TensorPart.VOCABULARY and there[0] >= wanted[0]
        if there != wanted and not (padded and there[1:] == wanted[1:]):
            rule = f"{name} has shape {there}, but the arguments imply {wanted}."
            raise refusal(ExchangeCode.TENSORS, where, rule, fix, str(there))
