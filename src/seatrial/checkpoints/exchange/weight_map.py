# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How an engine's checkpoints are understood: which tensor holds which of Hugging Face's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NoReturn

from seatrial.checkpoints.exchange.model import HubModel
from seatrial.checkpoints.setup import ModelShape
from seatrial.codes.exchange import ExchangeCode, refusal

Values = Mapping[str, Any]
"""What an engine was told, by its own names."""


class TensorPart(StrEnum):
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
class MappedTensor:
    """One tensor on both sides."""

    engine: str
    """Its name in a checkpoint; where it names no layer, it is stacked over layers and experts."""
    hub: str
    """Its name in a file of Hugging Face's, with the layer and the expert to be filled in."""
    part: TensorPart = TensorPart.WHOLE
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


@dataclass(frozen=True, slots=True)
class WeightExchange:
    """How an engine's checkpoints are understood."""

    model: Callable[[Values, str], HubModel]
    """The model of what was saved beside the tensors; FindingsError where no class has its parts.
    """
    entries: Callable[[HubModel, Values], tuple[MappedTensor, ...]]
    """Every tensor of it."""
    refuse_plan: Callable[[Values], None]
    """Refuses what the engine is told for a plan, where no class has the model's parts."""
    refuse_shape: Callable[[ModelShape, str], None]
    """The same by a record alone."""


def no_exchange(title: str) -> WeightExchange:
    """The exchange of an engine whose checkpoints cannot be exported."""

    def refuse(where: str) -> NoReturn:
        rule = f"checkpoints of {title} cannot be exported."
        raise refusal(ExchangeCode.NO_CLASS, where, rule, "Export a run of another engine.")

    return WeightExchange(
        model=lambda _, where: refuse(where),
        entries=lambda *_: (),
        refuse_plan=lambda _: refuse(""),
        refuse_shape=lambda _, where: refuse(where),
    )
