# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Going on from another run's checkpoint, with its weights, optimizer state, step and data order.

It is looked at before the engine loads it, so that what does not fit is said in a line and not by
an assertion of the engine's.
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
from seatrial.checkpoints.verdict import SCHEDULE_NAMES, Resume, verdict
from seatrial.codes.checkpoints import CheckpointCode, found
from seatrial.engines.megatron.checkpoints import setup_from_arguments
from seatrial.version import VERSION
from seatrial.worker.settings import Parent

_RATES = ("max_lr", "min_lr")
"""What the engine keeps with each group of parameters, and knows the group by."""


@dataclass(frozen=True, slots=True)
class Followed:
    """The checkpoint of the parent that is loaded."""

    address: str
    """Where the parent's checkpoints lie."""
    step: int
    anew: bool
    """Whether the schedule of the learning rate begins anew."""
    schedule: SavedSchedule | None
    """The schedule that it was saved with; absent in old records."""


def follow(told: Namespace, parent: Parent, chosen: Checkpoint | None, ranks: int) -> Followed:
    """The parent's checkpoint as it is to be loaded; StopError where it cannot be."""
    if chosen is None or chosen.record is None:
        rule = "the run is to continue from here, and there is no checkpoint."
        fix = "Name where the parent's checkpoints are: continue_from.checkpoints."
        raise _refused(parent.address, rule, fix)
    versions = Versions(VERSION, f"megatron-core {version('megatron-core')}", torch.__version__)
    wanted = setup_from_arguments(vars(told), versions, ranks)
    record = chosen.record
    for reason in verdict(record.setup, wanted).reasons:
        schedule = reason.what in SCHEDULE_NAMES
        if reason.outcome is not Resume.IMPOSSIBLE or (schedule and parent.anew):
            continue
        rule = (
            f"step {chosen.step} was saved with {reason.what} {reason.saved}, and the run has "
            f"{reason.wanted}: {reason.meaning}"
        )
        fix = "Use what the parent has, or begin with its weights alone: initial_weights."
        if schedule:
            fix = "Use what the parent has, or continue_from.reset_schedule=true."
        raise _refused(parent.address, rule, fix)
    length = wanted.data_order.train_samples
    if record.consumed_samples >= length:
        rule = (
            f"step {chosen.step} has read {record.consumed_samples:,} sequences, and the run ends "
            f"after {length:,}: no step would be trained."
        )
        fix = "Make the run longer than its parent: its length counts the parent's steps too."
        raise _refused(parent.address, rule, fix)
    return Followed(parent.address, chosen.step, parent.anew, record.setup.schedule)


def _refused(where: str, rule: str, fix: str) -> StopError:
    return stop(StopCode.NO_CHECKPOINT, found(CheckpointCode.NONE_GOOD, where, rule, fix))


@contextmanager
def comparing(told: Namespace, parent: Followed | None) -> Iterator[None]:
    """Have the engine load from the parent, where there is one, and compare what matters."""
    own, original = told.load, engine.load_checkpoint
    if parent is not None:
        told.load = parent.address
    engine.load_checkpoint = _load(original, parent)
    try:
        yield
    finally:
        told.load, engine.load_checkpoint = own, original


def _load(original: Callable[..., Any], parent: Followed | None) -> Callable[..., Any]:
    def load_checkpoint(model: Any, optimizer: Any, scheduler: Any, **kwargs: Any) -> Any:
        if optimizer is None or scheduler is None:
            return original(model, optimizer, scheduler, **kwargs)
        compare = scheduler.load_state_dict
        if parent is None or not parent.anew:
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
    """The saved schedule, with this run's length for a weight decay that does not change.

    The engine compares the length over which the decay would grow, which is the whole run's, also
    where it does not grow: a run could never be made longer (megatron-core 0.19.2,
    `OptimizerParamScheduler.load_state_dict`).
    """
    grows = scheduler.start_wd != scheduler.end_wd or "wd_incr_steps" not in state
    return state if grows else state | {"wd_incr_steps": scheduler.wd_incr_steps}


def _rename(groups: list[dict[str, Any]], scheduler: Any, saved: SavedSchedule | None) -> None:
    """Give groups the parent's rates while they are looked for: the engine knows them by those."""
    if saved is None:
        return
    for group in groups:
        for name, own, theirs in zip(
            _RATES, (scheduler.max_lr, scheduler.min_lr), (saved.peak, saved.minimum), strict=True
        ):
            if group.get(name) == own:
                group[name] = theirs
