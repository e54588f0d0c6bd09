# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The codes under which an export or an import is refused."""

from enum import StrEnum

from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where


class ExchangeCode(StrEnum):
    """Why weights cannot go to Hugging Face's format, or come from it; the codes are stable."""

    NO_CLASS = "ST-EXCHANGE-001"
    """No class of Hugging Face's that an export knows has the parts of this model."""
    NO_ENGINE = "ST-EXCHANGE-002"
    """The engine has no model with the parts of these weights, or an import knows none."""
    TENSORS = "ST-EXCHANGE-003"
    """The tensors are not those that the model's dimensions ask for."""
    UNREADABLE = "ST-EXCHANGE-004"
    """Weights cannot be read, or are in a format that could run code."""
    TARGET = "ST-EXCHANGE-005"
    """Where the weights are to go, something is already."""
    OTHER_MODEL = "ST-EXCHANGE-006"
    """The weights that a run is to begin with are of another model than the run's."""
    NOT_GIVEN = "ST-EXCHANGE-007"
    """The Hugging Face Hub does not give the weights that a run is to begin with."""
    OTHER_LOGITS = "ST-EXCHANGE-008"
    """Exported weights do not compute in transformers what their checkpoint does in its engine."""


POSSIBLE = (
    "Possible are models of the llama family (LlamaForCausalLM), of the gpt family "
    "(GPT2LMHeadModel), and llama with experts as Mixtral has them (MixtralForCausalLM)."
)
"""What can be exported and imported, for whoever asked for something else."""


def refusal(code: ExchangeCode, where: str, rule: str, fix: str, value: str = "") -> FindingsError:
    """The error that ends an export or an import with one finding."""
    return FindingsError([Finding(code, Severity.ERROR, Where(file=where), rule, value, fix)])
