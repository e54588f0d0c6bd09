# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Weight maps: which tensor in an engine's checkpoint contains which Hugging Face tensor."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

from seatrial.codes.exchange import ExchangeCode, refusal
from seatrial.huggingface.config import HubModel, write_config

Values = Mapping[str, Any]
"""An engine's arguments, under the engine's names."""
Shape = tuple[int, ...]


class TensorPart(StrEnum):
    """The part of an engine's tensor that makes one Hugging Face tensor."""

    WHOLE = "whole"
    """The whole tensor."""
    VOCABULARY = "vocabulary"
    """The rows for the tokenizer's vocabulary, without padding."""
    QUERY = "query"
    """The queries of each head group."""
    KEY = "key"
    """The keys of each head group."""
    VALUE = "value"
    """The values of each head group."""
    ALL_HEADS = "all heads"
    """Queries of all heads, then all keys, then all values. The engine groups them by head."""
    GATE = "gate"
    """The first half of the rows: the input of the activation function."""
    UP = "up"
    """The second half of the rows."""
    ALTERNATING = "alternating"
    """All rows, but those of both halves in turn: gate, up, gate, up."""
    QUERY_ROWS = "query rows"
    """Queries of all heads, followed by all keys and all values."""
    KEY_ROWS = "key rows"
    """Keys of all heads, which follow the queries."""
    VALUE_ROWS = "value rows"
    """Values of all heads, which come last."""


@dataclass(frozen=True, slots=True)
class MappedTensor:
    """One tensor in the engine's format and in Hugging Face's format."""

    engine: str
    """The name in a checkpoint, with `{layer}` unless layers are stacked in one tensor."""
    hub: str
    """The name in a Hugging Face file, with placeholders for the layer and the expert.

    Without `{expert}`, one tensor contains all experts of a layer."""
    shape: Shape
    """The shape of one layer's or expert's tensor in the engine, without padding."""
    part: TensorPart = TensorPart.WHOLE
    """The part of the engine's tensor."""
    transposed: bool = False
    """True if rows and columns are swapped."""
    also: str = ""
    """The engine's second name for the same tensor: Transformer Engine's layers and the engine's
    local layers name some norms differently."""
    layers: tuple[int, ...] = ()
    """The layers that have the tensor; empty if it does not belong to a layer."""
    experts: int = 0
    """Number of experts, which the engine stacks; 0 if the tensor does not belong to an expert."""

    @property
    def stacked(self) -> Shape:
        """The sizes of the leading axes of the engine's tensor, for layers and experts."""
        layers = (len(self.layers),) if self.layers and "{layer}" not in self.engine else ()
        return layers + ((self.experts,) if self.experts else ())

    @property
    def engine_shape(self) -> Shape:
        """The shape of the engine's whole tensor, without padding."""
        return self.stacked + self.shape


@dataclass(frozen=True, slots=True)
class WeightExchange:
    """The functions that convert an engine's checkpoints."""

    model: Callable[[Values, str], HubModel]
    """Returns the model from the saved arguments. Raises FindingsError if no class supports it."""
    entries: Callable[[HubModel, Values], tuple[MappedTensor, ...]]
    """Returns every tensor of the model, the embedding first."""
    refuse_plan: Callable[[Values], None]
    """Raises FindingsError if no class supports the model in a plan's arguments."""
    config: Callable[[HubModel, Values, str, Values], dict[str, Any]] = lambda *given: (
        config_of_model(*given)
    )
    """Returns the config.json, from the model, the saved arguments, the data type and the special
    tokens."""


def config_of_model(model: HubModel, _: Values, dtype: str, tokens: Values) -> dict[str, Any]:
    """Return the config.json of a model that its dimensions describe completely."""
    config = write_config(
        model.model_type,
        model.architecture,
        init_std=model.init_std,
        exact_gelu=model.exact_gelu,
        dtype=dtype,
        tokens=tokens,
    )
    # If it is missing, some classes assume a token outside of a smaller vocabulary.
    return {"pad_token_id": None} | config


def no_exchange(title: str) -> WeightExchange:
    """Return the exchange for an engine whose checkpoints cannot be exported."""

    def refuse(where: str) -> NoReturn:
        rule = f"{title} checkpoints cannot be exported."
        raise refusal(ExchangeCode.NO_CLASS, where, rule, "Use a run with a different engine.")

    return WeightExchange(
        model=lambda _, where: refuse(where),
        entries=lambda *_: (),
        refuse_plan=lambda _: refuse(""),
    )
