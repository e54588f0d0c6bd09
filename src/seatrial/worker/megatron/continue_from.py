# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Continue from a parent run's checkpoint, with its weights, optimizer state, step and data order.

The checkpoint is checked before the engine loads it, so that a mismatch produces a clear message
and not an assertion in the engine.
"""

from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import torch
from megatron.training import training as engine

from seatrial.checkpoints.inventory import Checkpoint
from seatrial.checkpoints.setup import SavedSchedule, Versions
from seatrial.checkpoints.stopping import StopCode, StopError, stop
from seatrial.checkpoints.verdict import OF_SCHEDULE, Resume, verdict
from seatrial.codes.checkpoints import CheckpointCode, found
from seatrial.engines.megatron.checkpoints import setup_from_arguments
from seatrial.version import VERSION
from seatrial.worker.settings import Parent

_RATES = ("max_lr", "min_lr")
"""Values that the engine stores with each parameter group, and by which it matches groups."""


@dataclass(frozen=True, slots=True)
class Followed:
    """The parent's checkpoint to load."""

    address: str
    """Location of the parent's checkpoints."""
    step: int
    reset_schedule: bool
    """True if the learning-rate schedule restarts."""
    schedule: SavedSchedule | None
    """The schedule in the checkpoint; None in old records."""


def follow(
    engine_args: Namespace, parent: Parent, chosen: Checkpoint | None, ranks: int
) -> Followed:
    """Return the parent's checkpoint to load. Raise StopError if it cannot be used."""
    if chosen is None or chosen.record is None:
        rule = "the run must continue from this location, but it contains no checkpoint."
        fix = "Set continue_from.checkpoints to the location of the parent's checkpoints."
        raise _refused(parent.address, rule, fix)
    versions = Versions(VERSION, f"megatron-core {version('megatron-core')}", torch.__version__)
    wanted = setup_from_arguments(vars(engine_args), versions, ranks)
    record = chosen.record
    for reason in verdict(record.setup, wanted).reasons:
        schedule = reason.what in OF_SCHEDULE
        if reason.outcome is not Resume.IMPOSSIBLE or (schedule and parent.reset_schedule):
            continue
        rule = (
            f"the checkpoint at step {chosen.step} was saved with {reason.what} {reason.saved}, "
            f"but the run has {reason.wanted}: {reason.meaning}"
        )
        fix = "Use the parent's value, or start only from its weights, with initial_weights."
        if schedule:
            fix = "Use the parent's value, or set continue_from.reset_schedule=true."
        raise _refused(parent.address, rule, fix)
    length = wanted.data_order.train_samples
    if record.consumed_samples >= length:
        rule = (
            f"at step {chosen.step}, the parent has read {record.consumed_samples:,} sequences, "
            f"but the run ends after {length:,}: no step would be trained."
        )
        fix = "Make the run longer than the parent: its length includes the parent's steps."
        raise _refused(parent.address, rule, fix)
    return Followed(parent.address, chosen.step, parent.reset_schedule, record.setup.schedule)


def _refused(where: str, rule: str, fix: str) -> StopError:
    return stop(StopCode.NO_CHECKPOINT, found(CheckpointCode.NONE_GOOD, where, rule, fix))


@contextmanager
def comparing(engine_args: Namespace, parent: Followed | None) -> Iterator[None]:
    """Make the engine load the parent's checkpoint, if any, and compare only relevant arguments."""
    own, original = engine_args.load, engine.load_checkpoint
    if parent is not None:
        engine_args.load = parent.address
    engine.load_checkpoint = _load(original, parent)
    try:
        yield
    finally:
        engine_args.load, engine.load_checkpoint = own, original


def _load(original: Callable[..., Any], parent: Followed | None) -> Callable[..., Any]:
    def load_checkpoint(model: Any, optimizer: Any, scheduler: Any, **kwargs: Any) -> Any:
        if optimizer is None or scheduler is None:
            return original(model, optimizer, scheduler, **kwargs)
        compare = scheduler.load_state_dict
        if parent is None or not parent.reset_schedule:
            scheduler.load_state_dict = lambda state: compare(_of_this_length(scheduler, state))
            try:
                return original(model, optimizer, scheduler, **kwargs)
            finally:
                del scheduler.load_state_dict
        scheduler.load_state_dict = lambda state: None
        groups = optimizer.param_groups
        rates = [{name: group.get(name) for name in _RATES} for group in groups]
        _rename(groups, scheduler, parent.schedule)
        try:
            return original(model, optimizer, scheduler, **kwargs)
        finally:
            del scheduler.load_state_dict
            for group, own in zip(optimizer.param_groups, rates, strict=True):
                group.update(own)
            scheduler.step(increment=0)

    return load_checkpoint


def _of_this_length(scheduler: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Return the saved schedule, with this run's length if the weight decay is constant.

    The engine compares the length over which the weight decay increases, which is the length of the
    run, even if the decay is constant. Then a run could never be made longer (megatron-core 0.19.2,
    `OptimizerParamScheduler.load_state_dict`).
    """
    grows = scheduler.start_wd != scheduler.end_wd or "wd_incr_steps" not in state
    return state if grows else state | {"wd_incr_steps": scheduler.wd_incr_steps}


def _rename(groups: list[dict[str, Any]], scheduler: Any, saved: SavedSchedule | None) -> None:
    """Set the parent's rates on the groups during loading: the engine matches groups by rates."""
    if saved is None:
        return
    for group in groups:
        for name, own, theirs in zip(
            _RATES, (scheduler.max_lr, scheduler.min_lr), (saved.peak, saved.minimum), strict=True
        ):
            if group.get(name) == own:
                group[name] = theirs
