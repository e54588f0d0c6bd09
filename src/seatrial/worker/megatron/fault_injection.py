# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Faults that start at a given step, to test the detection of anomalies.

Only tests request a fault, in an environment variable, as
`KIND:rank=1,step=60,amount=0.3,steps=10`. Faults are never installed on a GPU. They imitate real
faults: NaN weights, nonsensical data, a slow or stopped rank, a slow disk.
"""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from megatron.training import get_args
from megatron.training import training as engine
from torch.utils.data.dataloader import _BaseDataLoaderIter

from seatrial.worker.megatron import gpt

FOR_EVER = 10**9


class FaultKind(StrEnum):
    """The faults that tests can inject into a running engine."""

    NAN_WEIGHT = "nan-weight"
    """A weight on the rank becomes NaN, or the infinity in `amount`."""
    NAN_GRADIENT = "nan-gradient"
    """A gradient on the rank becomes NaN."""
    WEIGHTS = "weights"
    """The weights on all ranks are multiplied by `amount`, once."""
    LABELS = "labels"
    """The labels are drawn at random on all ranks, as with nonsensical data."""
    GRADIENTS = "gradients"
    """The gradients on all ranks are multiplied by `amount`."""
    SLOW_RANK = "slow-rank"
    """The rank takes longer for its part of the step, by the share in `amount`."""
    SLOW_ALL = "slow-all"
    """All ranks take longer."""
    STEADY = "steady"
    """No fault: all ranks take `amount` seconds for their part, as if a device did the work.

    Needed because the speed of a shared host varies by a third from one second to the next."""
    STOPPED_RANK = "stopped-rank"
    """The rank is stopped (SIGSTOP)."""
    SLOW_DATA = "slow-data"
    """Each micro-batch on the rank is `amount` seconds late."""
    SLOW_SAVE = "slow-save"
    """Each save takes `amount` seconds longer."""


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """A fault, with its rank and its steps."""

    kind: FaultKind
    step: int = 1
    rank: int = -1
    """The rank; all ranks if negative."""
    amount: float = 0.0
    """A factor, a share or seconds."""
    steps: int = FOR_EVER
    """Number of steps."""

    def is_now(self) -> bool:
        """True if the fault is active in the current step and on this rank."""
        step = int(get_args().curr_iteration) + 1
        here = self.rank < 0 or self.rank == int(os.environ.get("RANK", "0"))
        return here and self.step <= step < self.step + self.steps


def parsed(text: str) -> tuple[InjectedFault, ...]:
    """Parse one or more faults, separated by semicolons."""
    return tuple(_parsed(part) for part in text.split(";"))


def _parsed(text: str) -> InjectedFault:
    kind, _, rest = text.partition(":")
    values = dict(part.split("=") for part in rest.split(","))
    whole = {name: int(values[name]) for name in ("step", "rank", "steps") if name in values}
    return InjectedFault(FaultKind(kind), amount=float(values.get("amount", "nan")), **whole)


def install(troubles: tuple[InjectedFault, ...]) -> None:
    """Install faults. Call this after installing the observer's wrappers, so that they see them."""
    steady = [trouble for trouble in troubles if trouble.kind is FaultKind.STEADY]
    work = max((trouble.amount for trouble in steady), default=0.0)
    # The wrapper that is installed last runs first: a slow rank is slow after its steady part.
    for trouble in (*(one for one in troubles if one not in steady), *steady):
        _install(trouble, work)


def _install(trouble: InjectedFault, work: float) -> None:
    match trouble.kind:
        case FaultKind.NAN_WEIGHT | FaultKind.WEIGHTS | FaultKind.STOPPED_RANK:
            _before_step(trouble)
        case FaultKind.NAN_GRADIENT | FaultKind.GRADIENTS:
            _before_reduction(trouble, lambda _: None)
        case FaultKind.SLOW_RANK | FaultKind.SLOW_ALL:
            # Add a share of the rank's own work, like a slower processor.
            _before_reduction(trouble, lambda used: time.sleep(trouble.amount * max(work, used)))
        case FaultKind.STEADY:
            _pad(trouble)
        case FaultKind.LABELS:
            _draw_labels(trouble)
        case FaultKind.SLOW_DATA:
            loader: Any = _BaseDataLoaderIter
            loader.__next__ = _later(trouble, loader.__next__)
        case FaultKind.SLOW_SAVE:
            module: Any = engine
            module.save_checkpoint = _later(trouble, module.save_checkpoint)


def _later(trouble: InjectedFault, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if trouble.is_now():
            time.sleep(trouble.amount)
        return original(*args, **kwargs)

    return call


def _before_step(trouble: InjectedFault) -> None:
    module: Any = engine
    original = module.train_step

    def train_step(forward: Any, iterator: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
        if trouble.is_now():
            _strike(trouble, model)
        return original(forward, iterator, model, *args, **kwargs)

    module.train_step = train_step


def _strike(trouble: InjectedFault, model: list[torch.nn.Module]) -> None:
    """Apply a fault between two steps."""
    if trouble.kind is FaultKind.STOPPED_RANK:
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    with torch.no_grad():
        for parameter in model[0].parameters():
            if trouble.kind is FaultKind.WEIGHTS:
                parameter.mul_(trouble.amount)
            else:
                parameter.view(-1)[0] = trouble.amount
                return


def _before_reduction(trouble: InjectedFault, dawdle: Callable[[float], None]) -> None:
    """Apply a fault when this rank's gradients are ready, before it waits for other ranks.

    `dawdle` is called with the rank's compute time.
    """
    module: Any = engine
    step, finish = module.train_step, module.finalize_model_grads
    began = [0.0]

    def train_step(*args: Any, **kwargs: Any) -> Any:
        began[0] = time.thread_time()
        return step(*args, **kwargs)

    def finalize_model_grads(model: list[torch.nn.Module], *args: Any, **kwargs: Any) -> Any:
        if trouble.is_now():
            dawdle(time.thread_time() - began[0])
            for parameter in model[0].parameters() if "gradient" in trouble.kind else ():
                parameter.main_grad.mul_(trouble.amount)  # type: ignore[union-attr,operator]
        return finish(model, *args, **kwargs)

    module.train_step, module.finalize_model_grads = train_step, finalize_model_grads


def _pad(trouble: InjectedFault) -> None:
    """Extend every step so that the gradients are ready after a fixed time."""
    module: Any = engine
    step, finish = module.train_step, module.finalize_model_grads
    began = [0.0]

    def train_step(*args: Any, **kwargs: Any) -> Any:
        began[0] = time.perf_counter()
        return step(*args, **kwargs)

    def finalize_model_grads(*args: Any, **kwargs: Any) -> Any:
        time.sleep(max(0.0, began[0] + trouble.amount - time.perf_counter()))
        return finish(*args, **kwargs)

    module.train_step, module.finalize_model_grads = train_step, finalize_model_grads


def _draw_labels(trouble: InjectedFault) -> None:
    original = gpt.load_batch
    module: Any = gpt

    def load_batch(*args: Any) -> list[Any]:
        batch = original(*args)
        if batch[1] is not None and trouble.is_now():
            batch[1] = torch.randint_like(batch[1], get_args().vocab_size)
        return batch

    module.load_batch = load_batch
