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
    """How much memory a training stack takes; the file says which of these were fitted."""

    residual_bytes: float
    """Kept per layer, token and unit of width: norms, inputs of products; tp does not split it."""
    gathered_bytes: float
    """The same for inputs kept as gathered: with sequence parallelism these stay whole."""
    dropout_bytes: float
    """The same for the masks of dropout on the residual stream, where there is dropout."""
    attention_bytes: float
    """Kept per token and element of queries, keys, values and the attention's output."""
    score_bytes: float
    """Kept per head and pair of tokens where attention keeps its square of scores."""
    gelu_bytes: float
    """Kept per token and unit of the feed-forward width around a GELU."""
    swiglu_bytes: float
    """Kept per token and unit of the feed-forward width around a SwiGLU, gate included."""
    input_bytes: float
    """Kept per layer, token and unit of width where the layer is recomputed in full."""
    working_layers: float
    """Layers' worth of activations that live on top while one layer is differentiated."""
    logit_bytes: float
    """Live per token and entry of this rank's share of the vocabulary, on the last stage."""
    whole_logit_bytes: float
    """Live per token and entry of the whole vocabulary, where a stack gathers the logits."""
    state_bytes: float
    """Held per parameter beside weights, gradients and optimizer, shared by nobody."""
    shared_state_bytes: float
    """Held per parameter beside them, and shared out as the optimizer state is."""
    expert_imbalance: float
    """Tokens of the fullest rank's experts over the mean."""
    allocated_bytes: float
    """Live tensors that depend on nothing: workspaces of libraries."""
    context_bytes: float
    """Taken outside torch's allocator by any process: CUDA context and libraries."""
    communicator_bytes: float
    """Taken by the buffers of one communicator."""
    fragmentation: float
    """Reserved beyond what is allocated, as a share of the activations."""
    logit_fragmentation: float
    """The same as a share of the logits, whose few large blocks are seldom reused."""
    error: float
    """Relative error that nine of ten held-out runs stay below."""
    expert_error: float
    """The same for mixtures of experts, none of which was fitted."""


@cache
def constants(stack: str) -> StackConstants:
    """The constants of a stack, or of the one that stands in for what was never measured."""
    known = _file()["stacks"]
    return StackConstants(**known.get(stack, known[stand_in()])["constants"])


def stand_in() -> str:
    """The stack whose constants stand in for one that the file does not have."""
    return str(_file()["stand_in"])


def is_known(stack: str) -> bool:
    """Whether a stack has constants of its own."""
    return stack in _file()["stacks"]


@cache
def borrowed_error() -> float:
    """Relative error that nine of ten runs of a stack stay below by the constants of another."""
    return float(_file()["borrowed_error"])


@cache
def _file() -> dict[str, Any]:
    """The data file, parsed."""
    text = files("seatrial.planning").joinpath("data", "memory.toml").read_text("utf-8")
    return tomllib.loads(text)
