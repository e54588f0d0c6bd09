# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Plan an import: the model, and the location of each tensor. Writes nothing."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from seatrial.checkpoints.exchange.hub_config import model_of_config
from seatrial.checkpoints.exchange.model import HubClass, HubModel
from seatrial.checkpoints.exchange.safetensors_file import Placed, placed_tensors
from seatrial.checkpoints.exchange.shapes import HubTensor, hub_tensors
from seatrial.checkpoints.exchange.weight_map import MappedTensor
from seatrial.codes.exchange import ExchangeCode, refusal
from seatrial.findings import Finding, Severity, Where

CONFIG = "config.json"
BASE_PREFIX = "transformer."
"""A prefix that GPT-2 files of the base model omit."""
UNUSED = re.compile(r"(.*\.)?(rotary_emb\.inv_freq|attn\.(masked_)?bias)")
"""Constants that older files contain in addition to weights."""
_LARGEST_CONFIG = 1 << 20


WeightMap = Callable[[HubModel], tuple[MappedTensor, ...]]
"""Returns all tensors of a model in an engine."""


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
    model = read_model(directory)
    sources = {one.name: one for one in hub_tensors(model, entries(model))}
    there = placed_tensors(directory)
    places = {name: _found(name, one, there, directory) for name, one in sources.items()}
    _refuse_left_over(model, set(there) - {one.tensor.name for one in places.values()}, directory)
    named = str(config.get("_name_or_path") or directory.resolve())
    return ImportPlan(model, sources, places, f"HuggingFaceTokenizer {named}")


def read_model(directory: Path) -> HubModel:
    """Read the model from a directory's config.json. Raises FindingsError if there is none."""
    file = directory / CONFIG
    return model_of_config(_config(file), str(file))


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
        tied = model.tied_embeddings and name == "lm_head.weight"
        if not tied and not UNUSED.fullmatch(name):
            rule = f"the weights contain {name}, which {model.kind} does not have."
            fix = "Use weights and config.json of the same model."
            raise refusal(ExchangeCode.TENSORS, str(directory), rule, fix, name)


def spec_of_model(model: HubModel, checkpoint: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a spec that starts from imported weights, with these engine options."""
    dimensions: dict[str, Any] = {
        "family": "gpt" if model.kind is HubClass.GPT2 else "llama",
        "layers": model.layers,
        "hidden_size": model.hidden_size,
        "heads": model.heads,
        "kv_heads": model.kv_heads,
        "head_dim": model.head_dim,
        "ffn_hidden_size": model.ffn_hidden_size,
        "vocab_size": model.vocab_size,
        "max_positions": model.max_positions,
        "linear_bias": model.biases,
        "tied_embeddings": model.tied_embeddings,
    }
    if model.kind is not HubClass.GPT2:
        dimensions["rope_theta"] = model.rope_theta
    if model.experts:
        dimensions["moe"] = {
            "experts": model.experts,
            "top_k": model.top_k,
            "expert_ffn_hidden_size": model.ffn_hidden_size,
            "aux_loss_coefficient": model.aux_loss_coefficient,
        }
    spec: dict[str, Any] = {
        "model": {"dimensions": dimensions},
        "initial_weights": {"checkpoint": checkpoint},
    }
    return spec | ({"engine": {"options": options}} if options else {})


_FREE = frozenset({"init_std", "aux_loss_coefficient"})
"""Fields that affect further training, but not the meaning of the weights."""
_OF_EXPERTS = {"experts": "experts", "top_k": "top_k"}


OptionFix = Callable[[str, Any], str]
"""Returns the engine options that give a field of the model a value; empty if none is needed."""


def misfits(
    weights: HubModel, run: HubModel, where: str, padded: int, option_fix: OptionFix
) -> list[Finding]:
    """Return all differences between the weights and the run's model.

    Args:
        weights: The model of the weights.
        run: The model of the run.
        where: The source of the weights.
        padded: Rows of the run's embedding, including padding.
        option_fix: Finds the engine options for fields that a spec does not have.
    """
    return [
        _finding(where, name, one, other, option_fix(name, one) or _override(name, one))
        for name, one, other in _differing(weights, run, padded)
    ]


def _differing(weights: HubModel, run: HubModel, padded: int) -> Iterator[tuple[str, Any, Any]]:
    for field in fields(HubModel):
        name = field.name
        one, other = getattr(weights, name), getattr(run, name)
        if one == other or name in _FREE:
            continue
        if name == "vocab_size":
            # Additional rows can be trained by the run. With fewer rows, tokens would be lost.
            if padded < one:
                yield name, one, other
        elif name in ("max_positions", "rope_theta", "rope_scaling"):
            # The table of positions has a fixed length. Rotary positions have only a base.
            if (name == "max_positions") == (weights.kind is HubClass.GPT2):
                yield name, one, other
        else:
            yield name, one, other


def _finding(where: str, name: str, weights: Any, run: Any, override: str) -> Finding:
    # The engine chooses exact or tanh GELU by device; the difference is about 0.001.
    severity = Severity.WARNING if name == "activation" else Severity.ERROR
    rule = f"the weights have {name.replace('_', ' ')} {weights}, and the run has {run}."
    fix = f"Use {override}, or weights that match the run's model."
    return Finding(ExchangeCode.OTHER_MODEL, severity, Where(file=where), rule, str(run), fix)


def _override(name: str, value: Any) -> str:
    """Return the spec change that such weights need."""
    if name == "kind":
        return f"a model that is a {value}"
    shown = str(value).lower() if isinstance(value, bool) else value
    if name in _OF_EXPERTS:
        return f"model.dimensions.moe.{_OF_EXPERTS[name]}={shown}"
    spec_name = {"biases": "linear_bias"}.get(name, name)
    return f"model.dimensions.{spec_name}={shown}"
