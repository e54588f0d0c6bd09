# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What an export writes, before anything is written: the model, its files, its tensors; pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.checkpoints.exchange.codes import ExchangeCode, refusal
from seatrial.checkpoints.exchange.engine_side import model_of_arguments
from seatrial.checkpoints.exchange.key_map import EMBEDDING
from seatrial.checkpoints.exchange.model import HubModel
from seatrial.checkpoints.exchange.safetensors_file import (
    DTYPES,
    LARGEST_FILE,
    Tensor,
    divided,
)
from seatrial.checkpoints.exchange.shapes import (
    HubTensor,
    hub_tensors,
    name_in,
    refuse_other_tensors,
)
from seatrial.checkpoints.setup import ModelShape
from seatrial.checkpoints.stored_tensors import StoredTensor

EXPORT_RECORD = "seatrial-export.json"
"""The record of an export, created last: which checkpoint it is of, and a SHA-256 of every file."""


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """What is to be written."""

    model: HubModel
    """The model."""
    dtype: str
    """The type of its weights, by torch's name."""
    files: dict[str, list[Tensor]]
    """The tensors of each file, in their order."""
    sources: dict[str, HubTensor]
    """Where each of them comes from, by name."""
    engine_names: dict[str, str]
    """The engine's name of each of them in this checkpoint."""

    @property
    def size(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.size for tensors in self.files.values() for tensor in tensors)


def plan_export(
    stored: dict[str, StoredTensor],
    arguments: dict[str, Any],
    where: str,
    largest: int = LARGEST_FILE,
) -> ExportPlan:
    """What an export of such a checkpoint writes; FindingsError where it cannot be."""
    model = model_of_arguments(arguments, where)
    refuse_other_tensors(model, {name: one.shape for name, one in stored.items()}, where)
    sources = {one.name: one for one in hub_tensors(model)}
    names = {name: name_in(one.entry, stored) for name, one in sources.items()}
    tensors = [
        Tensor(name, _dtype(stored[names[name]], where), one.shape) for name, one in sources.items()
    ]
    return ExportPlan(model, stored[EMBEDDING].dtype, divided(tensors, largest), sources, names)


def refuse_by_shape(shape: ModelShape, where: str) -> None:
    """Refuse by the record alone what no class has the parts of, before anything else is read."""
    model_of_arguments(
        {
            "num_layers": shape.layers,
            "hidden_size": shape.hidden_size,
            "ffn_hidden_size": shape.ffn_hidden_size,
            "num_attention_heads": shape.heads,
            "group_query_attention": True,
            "num_query_groups": shape.kv_heads,
            "kv_channels": shape.head_dim,
            "max_position_embeddings": shape.max_positions,
            "position_embedding_type": shape.positions,
            "normalization": shape.norm,
            "swiglu": shape.gated,
            "add_bias_linear": shape.linear_bias,
            "add_qkv_bias": shape.qkv_bias,
            "qk_layernorm": shape.qk_norm,
            "padded_vocab_size": shape.padded_vocab_size,
            "num_experts": shape.experts,
            "moe_layer_freq": 1 if not shape.dense_layers else f"{shape.dense_layers} dense layers",
            "moe_shared_expert_intermediate_size": shape.shared_expert_ffn_hidden_size,
        },
        where,
    )


def refuse_occupied(target: Path) -> None:
    """Refuse a directory in which something is."""
    if target.exists() and not target.is_dir():
        there: Iterable[str] = [target.name]
    else:
        there = sorted(path.name for path in target.iterdir()) if target.is_dir() else []
    for name in there:
        rule = f"something is there already, such as {name}; weights of two models would mix."
        fix = "Name a directory that is empty or not there."
        raise refusal(ExchangeCode.TARGET, str(target), rule, fix, name)


def _dtype(tensor: StoredTensor, where: str) -> str:
    if tensor.dtype not in DTYPES:
        rule = f"{tensor.name} is of the type {tensor.dtype}."
        fix = f"An export can hold {', '.join(DTYPES)}."
        raise refusal(ExchangeCode.TENSORS, where, rule, fix, tensor.dtype)
    return tensor.dtype
