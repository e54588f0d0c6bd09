# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The transformers class of a model, and engine arguments that no class supports."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from seatrial.codes.exchange import ExchangeCode, refusal
from seatrial.huggingface.tables import TABLES

MPT = "mpt"
"""The model type of LLM Foundry's own models, which only its checkpoints are exported as."""


def class_name(model_type: str) -> str:
    """Return the transformers class of a model type."""
    return "MptForCausalLM" if model_type == MPT else TABLES[model_type].class_name


@dataclass(frozen=True, slots=True)
class Plain:
    """An argument that must have one of its plain values, because no class supports others."""

    name: str
    """The engine's argument."""
    allowed: tuple[Any, ...]
    """The values that the classes support, including None for a missing argument."""
    what: str
    """The feature that a different value adds to the model."""


OFF = (None, False)
"""The plain values of a flag."""


def refuse_unless_plain(
    values: Mapping[str, Any], rules: Iterable[Plain], who: str, where: str, fix: str
) -> None:
    """Reject arguments whose value an export does not support."""
    for rule in rules:
        value = values.get(rule.name)
        if not any(value is allowed or value == allowed for allowed in rule.allowed):
            said = f"{who} does not support {rule.what} ({rule.name} is {value!r})."
            raise refusal(ExchangeCode.NO_CLASS, where, said, fix, str(value))
