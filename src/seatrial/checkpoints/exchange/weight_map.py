# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Weight maps: which tensor in an engine's checkpoint contains which Hugging Face tensor."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

from seatrial.checkpoints.exchange.model import HubModel
from seatrial.checkpoints.setup import ModelShape
from seatrial.codes.exchange import ExchangeCode, refusal

Values = Mapping[str, Any]
"""An engine's arguments, under the engine's names."""


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
    """The name in a checkpoint. Without `{layer}`, it is stacked over layers and experts."""
    hub: str
    """The name in a Hugging Face file, with placeholders for the layer and the expert."""
    part: TensorPart = TensorPart.WHOLE
    """The part of the engine's tensor."""
    transposed: bool = False
    """True if rows and columns are swapped."""
    also: str = ""
    """The engine's second name for the same tensor, if its local layers use one."""

    @property
    def repeated(self) -> int:
        """The number of repeated dimensions: 0, 1 (layers) or 2 (layers and experts)."""
        return ("{layer}" in self.hub) + ("{expert}" in self.hub)

    @property
    def stacked(self) -> int:
        """Leading axes of the engine's tensor: 0, 1 (layer) or 2 (layer and expert)."""
        return 0 if "{layer}" in self.engine else self.repeated


@dataclass(frozen=True, slots=True)
class WeightExchange:
    """The functions that convert an engine's checkpoints."""

    model: Callable[[Values, str], HubModel]
    """Returns the model from the saved arguments. Raises FindingsError if no class supports it."""
    entries: Callable[[HubModel, Values], tuple[MappedTensor, ...]]
    """Returns every tensor of the model."""
    refuse_plan: Callable[[Values], None]
    """Raises FindingsError if no class supports the model in a plan's arguments."""
    refuse_shape: Callable[[ModelShape, str], None]
    """Raises FindingsError if no class supports the model in a record."""


def no_exchange(title: str) -> WeightExchange:
    """Return the exchange for an engine whose checkpoints cannot be exported."""

    def refuse(where: str) -> NoReturn:
        rule = f"{title} checkpoints cannot be exported."
        raise refusal(ExchangeCode.NO_CLASS, where, rule, "Use a run with a different engine.")

    return WeightExchange(
        model=lambda _, where: refuse(where),
        entries=lambda *_: (),
        refuse_plan=lambda _: refuse(""),
        refuse_shape=lambda _, where: refuse(where),
    )
