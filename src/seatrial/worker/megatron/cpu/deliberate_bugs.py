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
from typing import Any

import torch
from megatron.training import training

from seatrial.worker.megatron import gpt
from seatrial.worker.megatron.cpu import layers

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
        seen = None if mask is None else torch.zeros_like(mask)
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
    Bug.SLOW_SAVES: _slow_saves,
    Bug.WAITING_STEPS: _waiting_steps,
}
