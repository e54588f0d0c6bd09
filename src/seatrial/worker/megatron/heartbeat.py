# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A rank's heartbeat, from the engine's loop.

As for the event log, functions in the loop are wrapped and called unchanged, with one addition:
after an asynchronous save is finalised, all ranks wait at a barrier. Otherwise, rank 0's work would
look like a hung step to other nodes.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from megatron.training import async_utils, get_args
from megatron.training import training as engine

from seatrial.worker.supervisor.heartbeats import BeatWriter, RankPhase

Wrapped = Callable[..., Any]


@contextmanager
def writing_heartbeats(heart: BeatWriter) -> Iterator[None]:
    """Write heartbeats while the engine trains."""
    wrappers: dict[str, Callable[[Wrapped], Wrapped]] = {
        "train": lambda original: _train(heart, original),
        "training_log": lambda original: _step(heart, original),
        "save_checkpoint_and_time": lambda original: _paused(heart, RankPhase.SAVING, original),
        "maybe_finalize_async_save": lambda original: _finished(heart, original),
        "evaluate": lambda original: _paused(heart, RankPhase.EVALUATING, original),
    }
    originals = {name: getattr(engine, name) for name in wrappers}
    for name, wrap in wrappers.items():
        setattr(engine, name, wrap(originals[name]))
    try:
        yield
    finally:
        heart.end()
        for name, original in originals.items():
            setattr(engine, name, original)


def _train(heart: BeatWriter, original: Wrapped) -> Wrapped:
    def train(*args: Any, **kwargs: Any) -> Any:
        heart.begin(int(get_args().iteration))
        result = original(*args, **kwargs)
        heart.end()
        return result

    return train


def _step(heart: BeatWriter, original: Wrapped) -> Wrapped:
    # The fourth argument is the step; the engine passes it by position.
    def training_log(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        heart.step(int(args[3] if len(args) > 3 else kwargs["iteration"]))
        return result

    return training_log


def _paused(heart: BeatWriter, phase: RankPhase, original: Wrapped) -> Wrapped:
    def call(*args: Any, **kwargs: Any) -> Any:
        with heart.pause(phase):
            return original(*args, **kwargs)

    return call


def _finished(heart: BeatWriter, original: Wrapped) -> Wrapped:
    def maybe_finalize_async_save(*args: Any, **kwargs: Any) -> Any:
        before = unfinished_saves()
        if not before:
            return original(*args, **kwargs)
        with heart.pause(RankPhase.SAVING):
            result = original(*args, **kwargs)
            # The count is the same on all ranks (megatron/training/async_utils.py).
            if unfinished_saves() < before and torch.distributed.is_initialized():
                torch.distributed.barrier()
            return result

    return maybe_finalize_async_save


def unfinished_saves() -> int:
    """Return the number of this rank's asynchronous saves that are not finalised yet."""
    queue = async_utils._async_calls_queue
    return 0 if queue is None else int(queue.get_num_unfinalized_calls())
