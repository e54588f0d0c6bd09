# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What an import reads, before anything is written: the model, and where each tensor lies."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from seatrial.checkpoints.exchange.hub_config import model_of_config
from seatrial.checkpoints.exchange.model import HubActivation, HubClass, HubModel
from seatrial.checkpoints.exchange.safetensors_file import Placed, placed_tensors
from seatrial.checkpoints.exchange.shapes import HubTensor, hub_tensors
from seatrial.checkpoints.exchange.weight_map import MappedTensor
from seatrial.codes.exchange import ExchangeCode, refusal
from seatrial.findings import Finding, Severity, Where

CONFIG = "config.json"
BASE_PREFIX = "transformer."
"""What files of GPT-2 that hold the base model leave out."""
UNUSED = re.compile(r"(.*\.)?(rotary_emb\.inv_freq|attn\.(masked_)?bias)")
"""Constants that older files hold beside the weights."""
_LARGEST_CONFIG = 1 << 20


WeightMap = Callable[[HubModel], tuple[MappedTensor, ...]]
"""Every tensor that an engine has of a model."""


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What is to be read."""

    model: HubModel
    sources: dict[str, HubTensor]
    """Its tensors, by Hugging Face's name."""
    places: dict[str, Placed]
    """Where each of them lies, by the same name."""
    tokenizer: str
    """The tokenizer, as a record names it."""

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return sum(one.tensor.size for one in self.places.values())

    @property
    def dtype(self) -> str:
        """The type of most weights, by torch's name."""
        return max(self.places.values(), key=lambda one: one.tensor.size).tensor.dtype


def plan_import(directory: Path, entries: WeightMap) -> ImportPlan:
    """What an import of a directory reads for an engine; FindingsError where it cannot be."""
    if "://" in str(directory) or str(directory).startswith("hf:"):
        rule = "weights are imported from a directory."
        fix = "Fetch them first: hf download OWNER/NAME --local-dir DIR."
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
    """The model that a directory's config.json describes; FindingsError where there is none."""
    file = directory / CONFIG
    return model_of_config(_config(file), str(file))


def _config(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > _LARGEST_CONFIG:
            raise ValueError("it is too large")
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        said = getattr(error, "strerror", None) or str(error)
        fix = "Name the directory that holds config.json and the weights."
        rule = f"there is no config.json that can be read: {said}."
        raise refusal(ExchangeCode.UNREADABLE, str(file), rule, fix) from error
    if not isinstance(content, dict):
        fix = "Take the config.json of the weights."
        raise refusal(ExchangeCode.UNREADABLE, str(file), "it holds no keys.", fix)
    return content


def _found(name: str, wanted: HubTensor, there: dict[str, Placed], directory: Path) -> Placed:
    found = there.get(name) or there.get(name.removeprefix(BASE_PREFIX))
    fix = "Take weights and config.json of the same model."
    if found is None:
        rule = f"the weights hold no {name}, which the config.json asks for."
        raise refusal(ExchangeCode.TENSORS, str(directory), rule, fix, name)
    if found.tensor.shape != wanted.shape:
        rule = f"{name} has the shape {found.tensor.shape}, and config.json says {wanted.shape}."
        raise refusal(ExchangeCode.TENSORS, str(found.file), rule, fix, str(found.tensor.shape))
    return found


def _refuse_left_over(model: HubModel, names: set[str], directory: Path) -> None:
    """Refuse weights that the import would drop without a word."""
    for name in sorted(names):
        tied = model.tied_embeddings and name == "lm_head.weight"
        if not tied and not UNUSED.fullmatch(name):
            rule = f"the weights hold {name}, which {model.kind} has no place for."
            fix = "Take weights and config.json of the same model."
            raise refusal(ExchangeCode.TENSORS, str(directory), rule, fix, name)


def spec_of_model(model: HubModel, checkpoint: str) -> dict[str, Any]:
    """The part of a spec that starts from imported weights."""
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
    options: dict[str, Any] = {}
    if model.norm_epsilon != 1e-5:
        options["norm-epsilon"] = model.norm_epsilon
    if model.rope_scaling is not None:
        options |= {"use-rope-scaling": True, "rope-scaling-factor": model.rope_scaling}
    if model.activation is HubActivation.GELU:
        options["no-bias-gelu-fusion"] = True
    spec: dict[str, Any] = {
        "model": {"dimensions": dimensions},
        "initial_weights": {"checkpoint": checkpoint},
    }
    return spec | ({"engine": {"options": options}} if options else {})


_FREE = frozenset({"init_std", "aux_loss_coefficient"})
"""What decides how training goes on, and not what the weights mean."""
_OF_ENGINE = {"norm_epsilon": "norm-epsilon"}
"""Fields that a spec has no other name for than the engine's own option."""
_OF_EXPERTS = {"experts": "experts", "top_k": "top_k"}


def misfits(weights: HubModel, run: HubModel, where: str, padded: int) -> list[Finding]:
    """Every difference between weights and the run's own model.

    Args:
        weights: The model of the weights.
        run: The model of the run.
        where: Where the weights come from.
        padded: Rows of the run's embedding, padding included.
    """
    return [_finding(where, *differing) for differing in _differing(weights, run, padded)]


def _differing(weights: HubModel, run: HubModel, padded: int) -> Iterator[tuple[str, Any, Any]]:
    for field in fields(HubModel):
        name = field.name
        one, other = getattr(weights, name), getattr(run, name)
        if one == other or name in _FREE:
            continue
        if name == "vocab_size":
            # More rows than the weights have are the run's to train; fewer would lose tokens.
            if padded < one:
                yield name, one, other
        elif name in ("max_positions", "rope_theta", "rope_scaling"):
            # A table of positions has a length; rotation has a base, and no longest sequence.
            if (name == "max_positions") == (weights.kind is HubClass.GPT2):
                yield name, one, other
        else:
            yield name, one, other


def _finding(where: str, name: str, weights: Any, run: Any) -> Finding:
    # GELU with tanh or without is the engine's choice by device, and differs by a thousandth.
    severity = Severity.WARNING if name == "activation" else Severity.ERROR
    rule = f"the weights have {name.replace('_', ' ')} {weights}, and the run has {run}."
    fix = f"Use {_override(name, weights)}, or weights of the run's own model."
    return Finding(ExchangeCode.OTHER_MODEL, severity, Where(file=where), rule, str(run), fix)


def _override(name: str, value: Any) -> str:
    """What a spec would have to say for such weights."""
    if name == "kind":
        return f"a model that is a {value}"
    if name == "activation":
        switch = "true" if value == "gelu" else "false"
        return f"engine.options.no-bias-gelu-fusion={switch}"
    if name == "rope_scaling":
        given = f"use-rope-scaling=true and engine.options.rope-scaling-factor={value}"
        return f"engine.options.{given}" if value else "no engine.options.use-rope-scaling"
    if name in _OF_ENGINE:
        return f"engine.options.{_OF_ENGINE[name]}={value}"
    shown = str(value).lower() if isinstance(value, bool) else value
    if name in _OF_EXPERTS:
        return f"model.dimensions.moe.{_OF_EXPERTS[name]}={shown}"
    spec_name = {"biases": "linear_bias"}.get(name, name)
    return f"model.dimensions.{spec_name}={shown}"
