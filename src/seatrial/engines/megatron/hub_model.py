# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The transformers model of Megatron's arguments, and the arguments of such a model. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from seatrial.codes.exchange import ExchangeCode, refusal
from seatrial.engines.engine import ArgumentValue
from seatrial.engines.megatron.model_flags import MODEL_FLAGS
from seatrial.engines.megatron.saved_model import architecture_of_arguments
from seatrial.huggingface.config import SUPPORTED, HubModel, NoHubClass, model_type_for
from seatrial.spec.model import Activation, Architecture

Values = Mapping[str, Any]
"""The engine's arguments by name."""


def model_of_arguments(values: Values, where: str) -> HubModel:
    """Return the model in a plan's flags or in saved arguments.

    Raises FindingsError if no class supports the model.
    """
    architecture = architecture_of_arguments(values, where)
    model_type = model_type_for(architecture)
    if isinstance(model_type, NoHubClass):
        raise refusal(ExchangeCode.NO_CLASS, where, model_type.reason, SUPPORTED)
    std = values.get("init_method_std") or values.get("init-method-std") or 0.02
    exact = architecture.activation is Activation.GELU and not _has_fused_gelu(values)
    return HubModel(model_type, architecture, float(std), exact)


def _has_fused_gelu(values: Values) -> bool:
    """True if GELU is approximated with tanh, which only the engine's fused kernel does.

    See `fusions/fused_bias_gelu.py` and `transformer/mlp.py` in megatron-core 0.19.2.
    """
    return bool(values.get("bias_gelu_fusion", not values.get("no-bias-gelu-fusion")))


def refuse_plan(arguments: Values) -> None:
    """Reject a plan's flags if no class supports the model, or the format cannot be exported."""
    if arguments.get("ckpt-format") == "fsdp_dtensor":
        rule = "Megatron's FSDP saves checkpoints without a record, which an export needs."
        raise refusal(ExchangeCode.UNREADABLE, "", rule, "Use parallelism.sharding=optimizer.")
    model_of_arguments(arguments, "")


@dataclass(frozen=True, slots=True)
class _ModelSizes:
    architecture: Architecture
    sequence_length: int
    padded_vocab_size: int


@dataclass(frozen=True, slots=True)
class _Layout:
    cp_size: int = 1


@dataclass(frozen=True, slots=True)
class _ModelOnly:
    """The part of a plan that the flags of a model read."""

    model: _ModelSizes
    layout: _Layout = _Layout()


_STORED = {
    "norm_epsilon": "layernorm_epsilon",
    "apply_layernorm_1p": "layernorm_zero_centered_gamma",
}
"""Names under which the engine stores options."""


def flags_of_model(model: Architecture) -> dict[str, ArgumentValue]:
    """Return the engine's flags for a model outside of a plan, without padding."""
    plan: Any = _ModelOnly(_ModelSizes(model, model.max_positions, model.vocab_size))
    return {flag.name: flag.value(plan) for flag in MODEL_FLAGS}


def arguments_of_model(model: HubModel) -> dict[str, Any]:
    """Return the engine's arguments that describe a model, as a checkpoint contains them."""
    architecture = model.architecture
    values = {name.replace("-", "_"): value for name, value in flags_of_model(architecture).items()}
    for flag, stored in _STORED.items():
        values[stored] = values.pop(flag)
    return {name: value for name, value in values.items() if value is not None} | {
        # The engine inverts these flags when it parses them.
        "add_bias_linear": not values.pop("disable_bias_linear"),
        "bias_gelu_fusion": architecture.activation is Activation.GELU and not model.exact_gelu,
        "init_method_std": model.init_std,
    }


def options_of_model(model: HubModel) -> dict[str, Any]:
    """Return the options for what a spec cannot say about a model with a field."""
    return {"no-bias-gelu-fusion": True} if model.exact_gelu else {}


def option_fix(setting: str, value: Any) -> str:
    """Return the options that give a setting of a model a value; empty if they do not set it."""
    if setting == "exact_gelu":
        return f"engine.options.no-bias-gelu-fusion={'true' if value else 'false'}"
    return ""
