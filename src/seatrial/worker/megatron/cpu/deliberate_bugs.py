# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Deliberate bugs, which reveal thresholds that can never fail.

Each bug breaks one condition for a layout's correctness, starting at the first step; faults that
start at a later step are in `fault_injection.py`. Only tests request a bug, in an environment
variable. Bugs are never installed on a GPU, because they are in the layers of the CPU runtime.
"""

import time
from collections.abc import Callable
from enum import StrEnum
from functools import partial
from importlib import import_module
from typing import Any

import torch
from megatron.core import mpu
from megatron.core.tensor_parallel import mappings
from megatron.core.transformer import attention, multi_latent_attention
from megatron.core.transformer.moe.router import TopKRouter
from megatron.training import training

from seatrial.worker.megatron import gpt
from seatrial.worker.megatron.cpu import layers

# The package has a function with the same name.
_finalize = import_module("megatron.core.distributed.finalize_model_grads")

WAIT_SECONDS = 0.2
"""Seconds that a step waits."""


class Bug(StrEnum):
    UNMARKED_NORM = "unmarked-norm"
    """Norms are not marked as sequence parallel, so their gradients are not reduced."""
    NO_CAUSAL_MASK = "no-causal-mask"
    """Context-parallel attention attends to later tokens."""
    CONTIGUOUS_CHUNKS = "contiguous-chunks"
    """Masks assume that a rank has adjacent tokens."""
    UNORDERED_KEYS = "unordered-keys"
    """Gathered keys stay in rank order."""
    LOCAL_POSITIONS = "local-positions"
    """Every context-parallel rank counts positions from 0."""
    WINDOW_AT_END = "window-at-end"
    """Under context parallelism, a sliding window assumes that a rank has the last tokens."""
    SPLIT_ROTARY_GRADIENT = "split-rotary-gradient"
    """The rotary keys of latent attention get the gradient of one tensor-parallel rank's heads."""
    WHOLE_SEQUENCE_COUNT = "whole-sequence-count"
    """A context-parallel rank divides its loss by the tokens of the whole sequence."""
    PARTITION_SCALE = "partition-scale"
    """Attention scores are scaled by the width of a tensor-parallel rank's part."""
    SPLIT_KEY_GRADIENT = "split-key-gradient"
    """Ranks that share a key/value head do not sum its gradient."""
    UNTIED_EMBEDDING = "untied-embedding"
    """The first and the last pipeline stage do not sum the gradient of the tied embedding."""
    UNREDUCED_ROUTER = "unreduced-router"
    """The router's gradient is not reduced under sequence parallelism."""
    UNSCALED_EXPERTS = "unscaled-experts"
    """The gradients of experts are not divided by the number of expert-parallel ranks."""
    AVERAGED_TWICE = "averaged-twice"
    """The gradient of the last norm is averaged twice over the data-parallel ranks."""
    SLOW_SAVES = "slow-saves"
    """Every second save takes ten times as long; results are correct."""
    WAITING_STEPS = "waiting-steps"
    """Every step waits like a host that waits for its GPUs, and leaves the cores to other
    processes; results are correct."""


def install(bug: Bug) -> None:
    _BUGS[bug]()


def _replace(owner: Any, name: str, broken: Any) -> None:
    """Replace a working attribute with a broken one."""
    setattr(owner, name, broken)


def _unmarked_norm() -> None:
    _replace(layers, "mark_sequence_parallel", lambda parameter, split: None)


def _no_causal_mask() -> None:
    original = layers.ContextParallelAttention.forward

    def forward(self: Any, query: Any, key: Any, value: Any, mask: Any, **kwargs: Any) -> Any:
        hides = mask is not None and self.cp_group.size() == 1
        seen = mask if hides or mask is None else torch.zeros_like(mask)
        return original(self, query, key, value, seen, **kwargs)

    def seeing_rows(length: int, cp_size: int, rank: int) -> torch.Tensor:
        return torch.zeros(1, 1, length // cp_size, length, dtype=torch.bool)

    _replace(layers, "causal_rows", seeing_rows)
    _replace(layers.ContextParallelAttention, "forward", forward)


def _contiguous_chunks() -> None:
    original = layers.ContextParallelAttention.forward

    def forward(self: Any, query: Any, key: Any, value: Any, mask: Any, **kwargs: Any) -> Any:
        size, rank = self.cp_group.size(), self.cp_group.rank()
        length = key.size(0) * size
        mine = torch.arange(query.size(0)) + rank * query.size(0)
        wrong = (torch.arange(length)[None, :] > mine[:, None])[None, None]
        return original(self, query, key, value, wrong if size > 1 else mask, **kwargs)

    _replace(layers.ContextParallelAttention, "forward", forward)


def _unordered_keys() -> None:
    _replace(layers, "sequence_order", lambda length, cp_size: torch.arange(length))


def _local_positions() -> None:
    original = gpt.load_batch

    def load_batch(*args: Any) -> list[Any]:
        batch = original(*args)
        if batch[0] is not None:
            batch[3] = torch.arange(batch[0].size(1))[None]
        return batch

    _replace(gpt, "load_batch", load_batch)


def _window_at_end() -> None:
    def rows_before_window(length: int, cp_size: int, rank: int, window: int) -> torch.Tensor:
        mine = torch.arange(length - length // cp_size, length)
        return (torch.arange(length)[None, :] < mine[:, None] - window)[None, None]

    _replace(layers, "rows_before_window", rows_before_window)


def _split_rotary_gradient() -> None:
    # The backward pass takes the rank's own part, without a sum over the ranks.
    gather = partial(
        mappings.gather_from_sequence_parallel_region, tensor_parallel_output_grad=False
    )
    _replace(multi_latent_attention, "gather_from_sequence_parallel_region", gather)


def _whole_sequence_count() -> None:
    original = gpt.loss_of

    def loss_of(*args: Any) -> Any:
        loss, tokens, reported = original(*args)
        return loss, tokens * mpu.get_context_parallel_world_size(), reported

    _replace(gpt, "loss_of", loss_of)


def _partition_scale() -> None:
    original = layers.ContextParallelAttention.__init__

    def build(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        self.softmax_scale *= mpu.get_tensor_model_parallel_world_size() ** 0.5

    _replace(layers.ContextParallelAttention, "__init__", build)


def _split_key_gradient() -> None:
    # The backward pass of this gather takes the rank's own part, without a sum over the ranks.
    gather = mappings.gather_from_tensor_model_parallel_region
    _replace(attention, "all_gather_last_dim_from_tensor_parallel_region", gather)


def _untied_embedding() -> None:
    _replace(_finalize, "_allreduce_word_embedding_grads", lambda *args: None)


def _unreduced_router() -> None:
    original = TopKRouter.__init__

    def build(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        layers.mark_sequence_parallel(self.weight, False)

    _replace(TopKRouter, "__init__", build)


def _unscaled_experts() -> None:
    def scale(name: str, parameter: Any) -> float:
        is_expert = not getattr(parameter, "allreduce", True)
        return mpu.get_expert_model_parallel_world_size() if is_expert else 1.0

    _scale_gradients(scale)


def _averaged_twice() -> None:
    def scale(name: str, parameter: Any) -> float:
        is_last_norm = name.endswith("final_layernorm.weight")
        return 1 / mpu.get_data_parallel_world_size() if is_last_norm else 1.0

    _scale_gradients(scale)


def _scale_gradients(scale: Callable[[str, Any], float]) -> None:
    """Scale gradients after their reduction over the data-parallel ranks."""
    original = _finalize._allreduce_non_tensor_model_parallel_grads

    def reduce(model: Any, *args: Any) -> None:
        for chunk in model:
            for name, parameter in chunk.named_parameters():
                parameter.main_grad.mul_(scale(name, parameter))
        original(model, *args)

    _replace(_finalize, "_allreduce_non_tensor_model_parallel_grads", reduce)


def _slow_saves() -> None:
    original, count = training.save_checkpoint, 0

    def save_checkpoint(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        began = time.monotonic()
        result = original(*args, **kwargs)
        if count % 2 == 0:
            time.sleep(9 * (time.monotonic() - began))
        return result

    _replace(training, "save_checkpoint", save_checkpoint)


def _waiting_steps() -> None:
    original = training.train_step

    def train_step(*args: Any, **kwargs: Any) -> Any:
        time.sleep(WAIT_SECONDS)
        return original(*args, **kwargs)

    _replace(training, "train_step", train_step)


_BUGS: dict[Bug, Callable[[], None]] = {
    Bug.UNMARKED_NORM: _unmarked_norm,
    Bug.NO_CAUSAL_MASK: _no_causal_mask,
    Bug.CONTIGUOUS_CHUNKS: _contiguous_chunks,
    Bug.UNORDERED_KEYS: _unordered_keys,
    Bug.LOCAL_POSITIONS: _local_positions,
    Bug.WINDOW_AT_END: _window_at_end,
    Bug.SPLIT_ROTARY_GRADIENT: _split_rotary_gradient,
    Bug.WHOLE_SEQUENCE_COUNT: _whole_sequence_count,
    Bug.PARTITION_SCALE: _partition_scale,
    Bug.SPLIT_KEY_GRADIENT: _split_key_gradient,
    Bug.UNTIED_EMBEDDING: _untied_embedding,
    Bug.UNREDUCED_ROUTER: _unreduced_router,
    Bug.UNSCALED_EXPERTS: _unscaled_experts,
    Bug.AVERAGED_TWICE: _averaged_twice,
    Bug.SLOW_SAVES: _slow_saves,
    Bug.WAITING_STEPS: _waiting_steps,
}
