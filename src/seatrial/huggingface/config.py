# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Read a published config.json as an architecture, and write one. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from pydantic import ValidationError

from seatrial.codes.huggingface import HubConfigCode, config_refusal
from seatrial.errors import FindingsError
from seatrial.huggingface.fields import ConfigFields
from seatrial.huggingface.parts import Found
from seatrial.huggingface.refused import IGNORED, why_refused
from seatrial.huggingface.tables import EXACT_GELU, READ_AS, TABLES, ModelTable
from seatrial.spec.model import Architecture
from seatrial.spec.model_parts import MOST_PARTS, RouterScore

Config = Mapping[str, Any]
"""The content of a config.json."""

SUPPORTED = f"Supported are the model types {', '.join(TABLES)}."


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model as its config.json describes it."""

    model_type: str
    """The type whose transformers class has the model."""
    architecture: Architecture
    init_std: float
    """Standard deviation of the initial weights."""
    exact_gelu: bool = False
    """True if GELU is exact; the engine approximates it by tanh unless an option forbids that."""
    differences: tuple[str, ...] = ()
    """How the engine's model differs from the published one; weights cannot be exchanged then."""
    ignored: Mapping[str, str] | None = None
    """Fields of the config.json that do not change the model, with the reason."""
    quantized: bool = False
    """True if the weights that belong to the config.json are quantised."""


@dataclass(frozen=True, slots=True)
class NoHubClass:
    """Why no transformers class has a model."""

    reason: str


def read_config(config: Config, where: str) -> HubModel:
    """Return the model that a config.json describes; `where` names the file in messages.

    Raises FindingsError if a field is missing, unknown, or has a value that the engine does not
    support.
    """
    table = _table(config, where)
    fields = ConfigFields(config, where)
    fields.take("model_type")
    _check_class(fields, table)
    init_std = fields.typed("initializer_range", float, table.init_std)
    if not 0 < init_std < inf:
        fields.reject("initializer_range", "positive", init_std)
    found: Found = {}
    for part in table.parts:
        part.read(fields, found)
        # Before any part makes a list with an entry for each layer.
        if found.get("layers", 0) > MOST_PARTS:
            fields.reject("num_hidden_layers", f"at most {MOST_PARTS:,}", found["layers"])
    ignored = {}
    for name in fields.unread():
        reason = table.ignored.get(name) or IGNORED.get(name)
        if reason is None:
            rule = f"Seatrial does not know the field {name} of {table.model_type}, "
            rule += "which may change the model."
            fix = f"If it does not, remove {name} from a copy of the file and use that file."
            value = str(config[name])[:200]
            raise config_refusal(HubConfigCode.UNKNOWN_FIELD, where, name, rule, fix, value)
        ignored[name] = reason
    exact_gelu = found.pop(EXACT_GELU, False)
    architecture = _architecture(found, fields)
    return HubModel(
        model_type=table.model_type,
        architecture=architecture,
        init_std=init_std,
        exact_gelu=exact_gelu,
        differences=engine_differences(architecture),
        ignored=ignored,
        quantized=bool(config.get("quantization_config")),
    )


def _table(config: Config, where: str) -> ModelTable:
    said = str(config.get("model_type"))
    table = TABLES.get(READ_AS.get(said, said))
    if table is None:
        rule = f"models of type {said} are not supported: {why_refused(said)}."
        if config.get("model_type") is None:
            rule = "the file has no model_type, so it is not the config.json of a model."
        code = HubConfigCode.MODEL_TYPE
        raise config_refusal(code, where, "model_type", rule, SUPPORTED, said)
    return table


def _check_class(fields: ConfigFields, table: ModelTable) -> None:
    """Refuse a file that names other classes: a table describes one class."""
    name = "architectures"
    classes = fields.typed(name, list, None)
    if classes and table.class_name not in classes:
        rule = f"models of type {table.model_type} are supported as {table.class_name} only."
        fix = f"If the model is a {table.class_name}, correct {name} in a copy of the file and "
        fields.refuse(name, rule, ", ".join(map(str, classes)), f"{fix}use that file.")


def _architecture(found: Found, fields: ConfigFields) -> Architecture:
    nested: dict[str, Any] = {}
    for path, value in found.items():
        *sections, name = path.split(".")
        target = nested
        for section in sections:
            target = target.setdefault(section, {})
        target[name] = value
    try:
        return Architecture.model_validate(nested)
    except ValidationError as error:
        first = error.errors()[0]
        context = first.get("ctx") or {}
        place = (*first["loc"], *context.get("inside", ()))
        if context.get("instead"):
            place = (*place[:-1], context["instead"])
        path = ".".join(map(str, place))
        field = fields.names.get(path) or _NAMES.get(path, path)
        value = str(first.get("input"))[:200]
        said = first["msg"].replace("Input", field, 1)
        rule = str(context.get("rule") or f"{said}, not {value}.")
        raise config_refusal(
            HubConfigCode.INVALID,
            fields.where,
            field,
            rule,
            "Use the config.json that was published with the model.",
            value,
        ) from None


_NAMES = {
    "window.tokens": "sliding_window",
    "moe.groups": "n_group",
    "moe.groups_per_token": "topk_group",
    "moe.expert_ffn_hidden_size": "intermediate_size",
    "moe.shared_expert_ffn_hidden_size": "n_shared_experts",
    "moe.aux_loss_coefficient": "aux_loss_alpha",
    "latent_attention.q_rank": "q_lora_rank",
    "rope_scaling.original_positions": "rope_scaling.original_max_position_embeddings",
    "rope_scaling.low_frequency_factor": "rope_scaling.low_freq_factor",
    "rope_scaling.high_frequency_factor": "rope_scaling.high_freq_factor",
}
"""Fields by the path of their dimension, for the parts that compute a dimension."""


def engine_differences(model: Architecture) -> tuple[str, ...]:
    """Return how the engine's model differs from the transformers class of the same dimensions."""
    found = []
    if model.latent_attention is not None:
        if model.latent_attention.q_rank is None:
            found.append(
                "without a query rank, the engine has a trainable norm before each query "
                "projection that the published model does not have"
            )
        if model.norm_epsilon != 1e-6:
            found.append(
                "transformers normalises the compressed vectors of latent attention with an "
                f"epsilon of 1e-6, the engine with the model's, {model.norm_epsilon}"
            )
        if model.rope_scaling is not None and not model.rope_scaling.rounded:
            found.append("in latent attention, the engine rounds the limits of YaRN's ramp")
    moe = model.moe
    if moe is not None and moe.top_k == 1 and moe.normalize_top_k:
        found.append(
            "transformers gives the only expert of a token the weight 1, the engine its score"
        )
    if moe is not None and moe.groups is not None and moe.groups_per_token is not None:
        best = 2 if moe.score is RouterScore.SIGMOID else 1
        scored = moe.top_k // moe.groups_per_token
        if scored != best:
            found.append(
                f"transformers scores a group of experts by its best {best}, the engine by its "
                f"best {scored} (top_k / groups_per_token)"
            )
    return tuple(found)


def write_config(
    model_type: str,
    architecture: Architecture,
    *,
    init_std: float = 0.02,
    exact_gelu: bool = False,
    dtype: str = "bfloat16",
    tokens: Config | None = None,
) -> dict[str, Any]:
    """Return a config.json that transformers 4 and 5 read, for a type that has the model.

    Use `model_type_for` for the type: others lose dimensions.
    """
    table = TABLES[model_type]
    config: dict[str, Any] = {
        "architectures": [table.class_name],
        "model_type": table.model_type,
        "torch_dtype": dtype,
        "initializer_range": init_std,
        "use_cache": True,
    }
    for part in table.parts:
        config |= part.write(architecture)
    for name in ("activation_function", "hidden_act"):
        if exact_gelu and str(config.get(name)).startswith("gelu"):
            config[name] = "gelu"
    given = tokens or {}
    return config | {name: given.get(name) for name in ("bos_token_id", "eos_token_id")}


def model_type_for(architecture: Architecture) -> str | NoHubClass:
    """Return the type whose transformers class has exactly this model, or why there is none."""
    differences = engine_differences(architecture)
    if differences:
        return NoHubClass(f"{differences[0]}.")
    nearest: list[str] | None = None
    closest = ""
    for name, table in TABLES.items():
        lost = _lost(name, architecture)
        if not lost:
            return name
        if nearest is None or len(lost) < len(nearest):
            nearest, closest = lost, table.class_name
    return NoHubClass(f"{closest}, the closest class, does not support {', '.join(nearest or [])}.")


def _lost(model_type: str, architecture: Architecture) -> list[str]:
    """Return the dimensions that a class does not have; empty if it has all of them."""
    try:
        back = read_config(write_config(model_type, architecture), model_type).architecture
    except FindingsError as error:
        return [error.findings[0].rule.rstrip("."), *["-"] * 99]
    ours, theirs = _compared(architecture), _compared(back)
    names = {name: None for name in (*ours, *theirs) if ours.get(name) != theirs.get(name)}
    return [f"{name}: {ours.get(name)}" for name in names]


def _compared(model: Architecture) -> dict[str, Any]:
    """Return the dimensions that change what the model computes, by path."""
    flat: dict[str, Any] = {}
    for name, value in model.model_dump(mode="json").items():
        inner = value if isinstance(value, dict) else {}
        flat |= {f"{name}.{key}": each for key, each in inner.items()} or {name: value}
    moe = model.moe
    if moe is not None and all(map(moe.has_experts, range(model.layers))):
        # No layer has this size.
        flat.pop("ffn_hidden_size")
    for path in _TRAINING:
        flat.pop(path, None)
    return flat


_TRAINING = (
    "family",
    "mtp_layers",
    "mtp_loss_coefficient",
    "moe.aux_loss_coefficient",
    "moe.balancing",
    "moe.bias_update_rate",
)
"""Dimensions that training uses and a transformers class does not."""
