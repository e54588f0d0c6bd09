# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The constants of the memory model, per training stack, from `planning/data/memory.toml`."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class StackConstants:
    """The memory constants of a training stack; the file states which values were fitted."""

    residual_bytes: float
    """Stored per layer, token and unit of width: norms and inputs of products; not split by tp."""
    gathered_bytes: float
    """As `residual_bytes`, for inputs stored after gathering, even with sequence parallelism."""
    dropout_bytes: float
    """As `residual_bytes`, for the dropout masks on the residual stream, if there is dropout."""
    attention_bytes: float
    """Stored per token and element of queries, keys, values and attention output."""
    score_bytes: float
    """Stored per head and pair of tokens if attention stores its scores."""
    gelu_bytes: float
    """Stored per token and unit of the feed-forward width around a GELU."""
    swiglu_bytes: float
    """Stored per token and unit of the feed-forward width around a SwiGLU, with its gate."""
    input_bytes: float
    """Stored per layer, token and unit of width with full recomputation."""
    working_layers: float
    """Additional activations during the backward pass of one layer, in layers."""
    logit_bytes: float
    """Live per token and vocabulary entry of this rank, on the last stage."""
    whole_logit_bytes: float
    """Live per token and entry of the whole vocabulary, if a stack gathers the logits."""
    state_bytes: float
    """Per parameter in addition to weights, gradients and optimizer, not sharded."""
    shared_state_bytes: float
    """As `state_bytes`, sharded like the optimizer state."""
    expert_imbalance: float
    """Ratio of the tokens for the fullest rank's experts to the mean."""
    allocated_bytes: float
    """Live tensors of constant size: library workspaces."""
    context_bytes: float
    """Memory of each process outside torch's allocator: CUDA context and libraries."""
    communicator_bytes: float
    """Buffers of one communicator."""
    fragmentation: float
    """Reserved but not allocated memory, as a fraction of the activations."""
    logit_fragmentation: float
    """As `fragmentation`, as a fraction of the logits, whose few large blocks are rarely reused."""
    error: float
    """Relative error of nine of ten held-out runs."""
    expert_error: float
    """As `error`, for mixture-of-experts models, which were not fitted."""


@cache
def constants(stack: str) -> StackConstants:
    """Return the constants of a stack; for an unknown stack, those of the stand-in."""
    known = _file()["stacks"]
    return StackConstants(**known.get(stack, known[stand_in()])["constants"])


def stand_in() -> str:
    """Return the stack whose constants are used for a stack without measurements."""
    return str(_file()["stand_in"])


def is_known(stack: str) -> bool:
    """Return True if a stack has its own constants."""
    return stack in _file()["stacks"]


@cache
def borrowed_error() -> float:
    """Return the relative error of nine of ten runs if a stack uses a different one's constants."""
    return float(_file()["borrowed_error"])


@cache
def _file() -> dict[str, Any]:
    """Return the parsed data file."""
    text = files("seatrial.planning").joinpath("data", "memory.toml").read_text("utf-8")
    return tomllib.loads(text)
