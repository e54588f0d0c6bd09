# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Plan an import: the model, and the location of each tensor. Writes nothing."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from seatrial.checkpoints.exchange.model import class_name
from seatrial.checkpoints.exchange.safetensors_file import Placed, placed_tensors, same_values
from seatrial.checkpoints.exchange.shapes import HubTensor, hub_tensors
from seatrial.checkpoints.exchange.weight_map import MappedTensor
from seatrial.codes.exchange import ExchangeCode, refusal
from seatrial.findings import Finding, Severity, Where
from seatrial.huggingface.config import HubModel, read_config
from seatrial.spec.base import SpecModel
from seatrial.spec.model import Activation, Architecture, Positions

CONFIG = "config.json"
BASE_PREFIX = "transformer."
"""A prefix that GPT-2 files of the base model omit."""
UNUSED = re.compile(r"(.*\.)?(rotary_emb\.inv_freq|attn\.(masked_)?bias)")
"""Constants that older files contain in addition to weights."""
_LARGEST_CONFIG = 1 << 20


WeightMap = Callable[[HubModel], tuple[MappedTensor, ...]]
"""Returns all tensors of a model in an engine. Raises FindingsError if they differ in meaning."""


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The input of an import."""

    model: HubModel
    sources: dict[str, HubTensor]
    """Its tensors, by Hugging Face's name."""
    places: dict[str, Placed]
    """The location of each tensor, by the same name."""
    tokenizer: str
    """The tokenizer, as in a record."""

    @property
    def size(self) -> int:
        """The total size of the tensors in bytes."""
        return sum(one.tensor.size for one in self.places.values())

    @property
    def dtype(self) -> str:
        """The data type of the largest tensor, by torch's name."""
        return max(self.places.values(), key=lambda one: one.tensor.size).tensor.dtype


def plan_import(directory: Path, entries: WeightMap) -> ImportPlan:
    """Plan the import of a directory for an engine. Raises FindingsError if it is impossible."""
    if "://" in str(directory) or str(directory).startswith("hf:"):
        rule = "weights can only be imported from a directory."
        fix = "Download them first: hf download OWNER/NAME --local-dir DIR."
        raise refusal(ExchangeCode.UNREADABLE, str(directory), rule, fix)
    config = _config(directory / CONFIG)
    model, there = read_model(directory), placed_tensors(directory)
    model = _without_missing_layers(model, there)
    sources = {one.name: one for one in hub_tensors(model.architecture, entries(model))}
    places = {name: _found(name, one, there, directory) for name, one in sources.items()}
    used = {one.tensor.name for one in places.values()} | _repeated(model, places, there)
    _refuse_left_over(model, set(there) - used, directory)
    named = str(config.get("_name_or_path") or directory.resolve())
    return ImportPlan(model, sources, places, f"HuggingFaceTokenizer {named}")


def _without_missing_layers(model: HubModel, there: dict[str, Placed]) -> HubModel:
    """Return the model without multi-token prediction if its weights are not there.

    transformers ignores these layers, so weights that it saved do not contain them.
    """
    architecture = model.architecture
    first = f"model.layers.{architecture.layers}."
    if not architecture.mtp_layers or any(name.startswith(first) for name in there):
        return model
    return replace(model, architecture=architecture.replace(mtp_layers=0))


def _repeated(model: HubModel, places: dict[str, Placed], there: dict[str, Placed]) -> set[str]:
    """Return the tensors that repeat others in published layers for multi-token prediction.

    DeepSeek-V3 and GLM-4.5 store the embedding and the output projection again in each of these
    layers. The engine uses the model's own there.
    """
    sizes, embedding = model.architecture, "model.embed_tokens.weight"
    output = embedding if sizes.tied_embeddings else "lm_head.weight"
    found = set()
    for layer in range(sizes.layers, sizes.layers + sizes.mtp_layers):
        for ending, own in (("embed_tokens", embedding), ("shared_head.head", output)):
            name = f"model.layers.{layer}.{ending}.weight"
            if name not in there:
                continue
            if not same_values(there[name], places[own]):
                rule = f"{name} differs from {own}, which the engine uses in its place."
                fix = "To import the model without its layers for multi-token prediction, load and "
                fix += "save it with transformers, which leaves them out."
                raise refusal(ExchangeCode.TENSORS, str(there[name].file), rule, fix, name)
            found.add(name)
    return found


def read_model(directory: Path) -> HubModel:
    """Read the model from a directory's config.json. Raises FindingsError if there is none."""
    file = directory / CONFIG
    config = _config(file)
    if config.get("quantization_config"):
        rule = "the weights are quantised, which the engine does not support."
        fix = "Use the weights in bfloat16 or float32."
        raise refusal(ExchangeCode.NO_ENGINE, str(file), rule, fix)
    model = read_config(config, str(file))
    for difference in model.differences:
        fix = "Train such a model from its first step: its weights cannot be exchanged."
        raise refusal(ExchangeCode.NO_ENGINE, str(file), f"{difference}.", fix)
    return model


def _config(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > _LARGEST_CONFIG:
            raise ValueError("it is too large")
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        said = getattr(error, "strerror", None) or str(error)
        fix = "Use the directory that contains config.json and the weights."
        rule = f"config.json cannot be read: {said}."
        raise refusal(ExchangeCode.UNREADABLE, str(file), rule, fix) from error
    if not isinstance(content, dict):
        fix = "Use the config.json of the weights."
        raise refusal(ExchangeCode.UNREADABLE, str(file), "it is not a JSON object.", fix)
    return content


def _found(name: str, wanted: HubTensor, there: dict[str, Placed], directory: Path) -> Placed:
    found = there.get(name) or there.get(name.removeprefix(BASE_PREFIX))
    fix = "Use weights and config.json of the same model."
    if found is None:
        rule = f"the weights lack {name}, which config.json requires."
        raise refusal(ExchangeCode.TENSORS, str(directory), rule, fix, name)
    if found.tensor.shape != wanted.shape:
        rule = f"{name} has shape {found.tensor.shape}, but config.json implies {wanted.shape}."
        raise refusal(ExchangeCode.TENSORS, str(found.file), rule, fix, str(found.tensor.shape))
    return found


def _refuse_left_over(model: HubModel, names: set[str], directory: Path) -> None:
    """Reject weights that the import would drop silently."""
    for name in sorted(names):
        tied = model.architecture.tied_embeddings and name == "lm_head.weight"
        if not tied and not UNUSED.fullmatch(name):
            rule = (
                f"the weights contain {name}, which {class_name(model.model_type)} does not have."
            )
            fix = "Use weights and config.json of the same model."
            raise refusal(ExchangeCode.TENSORS, str(directory), rule, fix, name)


def spec_of_model(model: Architecture, checkpoint: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a spec that starts from imported weights, with these engine options."""
    dimensions = model.model_dump(mode="json", exclude_none=True)
    spec: dict[str, Any] = {
        "model": {"dimensions": dimensions},
        "initial_weights": {"checkpoint": checkpoint},
    }
    return spec | ({"engine": {"options": options}} if options else {})


_FREE = frozenset(
    {
        "family",
        "mtp_loss_coefficient",
        "moe.aux_loss_coefficient",
        "moe.balancing",
        "moe.bias_update_rate",
    }
)
"""Fields that affect further training, but not the meaning of the weights."""
_ROTARY = ("rope_theta", "rope_scaling", "rotary_fraction", "no_rope_every")


OptionFix = Callable[[str, Any], str]
"""Returns the engine options that give a setting of the model a value."""


def misfits(
    weights: HubModel, run: HubModel, where: str, padded: int, option_fix: OptionFix
) -> list[Finding]:
    """Return all differences between the weights and the run's model.

    Args:
        weights: The model of the weights.
        run: The model of the run.
        where: The source of the weights.
        padded: Rows of the run's embedding, including padding.
        option_fix: Finds the engine options for settings that a spec does not have.
    """
    found = [
        _finding(where, name, one, other, f"model.dimensions.{name}={_shown(one)}")
        for name, one, other in _differing(weights.architecture, run.architecture, padded)
    ]
    if weights.architecture.activation is Activation.GELU and weights.exact_gelu != run.exact_gelu:
        # The engine chooses exact or tanh GELU by device; the difference is about 0.001.
        one, other = ("exact" if model.exact_gelu else "tanh" for model in (weights, run))
        fix = option_fix("exact_gelu", weights.exact_gelu)
        found.append(_finding(where, "gelu", one, other, fix, Severity.WARNING))
    return found


def _differing(
    weights: Architecture, run: Architecture, padded: int
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the dimensions by which weights would have another meaning in a run's model."""
    for name, one, other in _unequal(_fields(weights), _fields(run)):
        if name in _FREE or name in _unused(weights):
            continue
        if name == "vocab_size":
            # Additional rows can be trained by the run. With fewer rows, tokens would be lost.
            if padded < one:
                yield name, one, other
        elif name == "mtp_layers":
            # A run need not train all of them.
            if other > one:
                yield name, one, other
        else:
            yield name, one, other


def _fields(model: SpecModel) -> dict[str, Any]:
    """Return every field, also those at their defaults, which a dump leaves out."""
    return {
        name: _fields(value) if isinstance(value, SpecModel) else value for name, value in model
    }


def _unequal(
    one: dict[str, Any], other: dict[str, Any], section: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    for name in one | other:
        ours, theirs = one.get(name), other.get(name)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            yield from _unequal(ours, theirs, f"{section}{name}.")
        elif ours != theirs:
            yield f"{section}{name}", ours, theirs


def _unused(model: Architecture) -> frozenset[str]:
    """Return the fields that make no difference to a model like this one."""
    unused: set[str] = set()
    if model.positions is not Positions.LEARNED:
        unused.add("max_positions")
    if model.positions is not Positions.ROPE:
        unused |= set(_ROTARY)
    if model.latent_attention is not None:
        unused |= {"kv_heads", "head_dim"}
    if model.moe is not None and all(map(model.moe.has_experts, range(model.layers))):
        unused.add("ffn_hidden_size")
    return frozenset(unused)


def _finding(
    where: str,
    name: str,
    weights: Any,
    run: Any,
    override: str,
    severity: Severity = Severity.ERROR,
) -> Finding:
    said = name.replace("_", " ").replace(".", " ")
    rule = f"the weights have {said} {_shown(weights)}, and the run has {_shown(run)}."
    fix = f"Use {override}, or weights that match the run's model."
    return Finding(ExchangeCode.OTHER_MODEL, severity, Where(file=where), rule, _shown(run), fix)


def _shown(value: Any) -> str:
    """Return a value as an override writes it."""
    return json.dumps(value).strip('"')
