# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What an import reads, before anything is written: the model, and where each tensor lies."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.checkpoints.exchange.codes import ExchangeCode, refusal
from seatrial.checkpoints.exchange.hub_side import model_of_config
from seatrial.checkpoints.exchange.key_map import entries
from seatrial.checkpoints.exchange.model import Activation, HubClass, HubModel
from seatrial.checkpoints.exchange.safetensors_file import Placed, placed_tensors
from seatrial.checkpoints.exchange.shapes import HubTensor, hub_tensors

CONFIG = "config.json"
BASE_PREFIX = "transformer."
"""What files of GPT-2 that hold the base model leave out."""
UNUSED = re.compile(r"(.*\.)?(rotary_emb\.inv_freq|attn\.(masked_)?bias)")
"""Constants that older files hold beside the weights."""
_LARGEST_CONFIG = 1 << 20


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What is to be read."""

    model: HubModel
    """The model."""
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


def plan_import(directory: Path) -> ImportPlan:
    """What an import of a directory reads; FindingsError where it cannot be."""
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
    if model.activation is Activation.GELU:
        options["no-bias-gelu-fusion"] = True
    spec: dict[str, Any] = {
        "model": {"dimensions": dimensions},
        "initial_weights": {"checkpoint": checkpoint},
    }
    return spec | ({"engine": {"options": options}} if options else {})
