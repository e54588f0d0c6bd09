# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The commit protocol around the engine's save functions.

The engine writes the checkpoint shards, the tensor metadata and the format file, either
synchronously or in the background. After the last file, and before the engine updates its tracker,
the ranks combine their digests and the first rank creates the record. See
`seatrial.checkpoints.commit`.
"""

import io
import os
import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from megatron.core import __version__ as engine_version
from megatron.core import dist_checkpointing
from megatron.core.dist_checkpointing.strategies import async_utils, filesystem_async
from megatron.training import checkpointing, get_args
from megatron.training import training as engine

from seatrial.checkpoints.commit import commit, make_room, write_tracker
from seatrial.checkpoints.record import Record, ShardList
from seatrial.checkpoints.setup import Setup, Versions
from seatrial.checkpoints.starts import StaleStartError, refuse_stale
from seatrial.checkpoints.stopping import StopCode, StopError
from seatrial.engines.megatron.checkpoint_names import NAMING, TRACKER
from seatrial.engines.megatron.checkpoints import setup_from_arguments
from seatrial.storage.location import LocalPlace
from seatrial.storage.visibility import visible_after_seconds
from seatrial.units import format_bytes
from seatrial.version import VERSION
from seatrial.worker.checkpointing.retention import Retirement
from seatrial.worker.collectives import first_rank, gathered_at_first, rank
from seatrial.worker.megatron.commit_digests import Written, install_writing
from seatrial.worker.megatron.save_processes import pickle_results, save_in_background

Wrapped = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class _Save:
    """A save in progress."""

    step: int
    directory: str
    consumed_samples: int
    validation_loss: float | None


class MegatronCommitter:
    """Commits this run's saves, unless a later start has replaced this one."""

    def __init__(self) -> None:
        """Create this before the engine starts; `begin_start` sets the incarnation."""
        self.incarnation = 0
        self._validation_loss: float | None = None
        self._retirement = Retirement()
        self.written = Written(lambda: self.incarnation, self._refuse_stale)

    def install(self) -> None:
        """Wrap the engine's functions."""
        install_writing()
        make_queue = filesystem_async.get_write_results_queue
        filesystem_async.get_write_results_queue = pickle_results(make_queue)
        writer = filesystem_async.FileSystemWriterAsync
        writer.prepare_write_data = self.written.naming(writer.prepare_write_data)
        writer.retrieve_write_results = self.written.collecting(writer.retrieve_write_results)
        async_utils.PersistentAsyncCaller.async_loop = staticmethod(save_in_background)
        dist_checkpointing.save = self._watch_save(dist_checkpointing.save)
        engine.save_checkpoint_and_time = _save_once(engine.save_checkpoint_and_time)
        engine.evaluate = self._watch_evaluation(engine.evaluate)
        checkpointing.maybe_msc = _WholeTracker(checkpointing.maybe_msc)

    def _refuse_stale(self) -> None:
        """Raise an error if a later start exists. Only the first rank checks."""
        args = get_args()
        if rank() == 0 and self.incarnation and args.save is not None:
            refuse_stale(LocalPlace(args.save), self.incarnation)

    def _watch_save(self, original: Wrapped) -> Wrapped:
        def save(sharded_state_dict: Any, checkpoint_dir: str, *args: Any, **kwargs: Any) -> Any:
            begun = self._begin(str(checkpoint_dir), get_args())
            request = original(sharded_state_dict, checkpoint_dir, *args, **kwargs)
            if begun is None:
                return request
            if request is None:
                self._finish(begun)
            else:
                # Run before the engine's own finalisation, which updates the tracker.
                request.finalize_fns.append(lambda: self._finish(begun))
            return request

        return save

    def _watch_evaluation(self, original: Wrapped) -> Wrapped:
        def evaluate(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            losses = result[0] if isinstance(result, tuple) else result
            loss = losses.get("lm loss") if isinstance(losses, dict) else None
            if loss is not None:
                self._validation_loss = float(loss)
            return result

        return evaluate

    def _begin(self, directory: str, args: Namespace) -> _Save | None:
        """Create a new directory for one of this run's saves; return None for other saves."""
        step = NAMING.step_of(Path(directory).name)
        kept = args.save is not None and Path(directory).parent == Path(args.save)
        if step is None or not kept or not self.incarnation:
            return None

        def fresh() -> None:
            place = LocalPlace(args.save)
            aside = _fenced(lambda: make_room(place, Path(directory).name, self.incarnation))
            Path(directory).mkdir(parents=True, exist_ok=True)
            if aside is not None:
                message = (
                    f"seatrial: step {step} is saved again; moved the old checkpoint to {aside}"
                )
                print(message, file=sys.stderr, flush=True)  # noqa: T201

        first_rank(fresh)
        return _Save(step, directory, int(args.consumed_train_samples), self._validation_loss)

    def _finish(self, save: _Save) -> None:
        """Combine the digests of all ranks, and commit."""
        mine = (self.written.take(save.directory), save.validation_loss)
        every = gathered_at_first(mine)

        def create() -> str:
            args = get_args()
            files = [file for files, _ in every for file in files]
            losses = [loss for _, loss in every if loss is not None]
            record = Record(
                step=save.step,
                consumed_samples=save.consumed_samples,
                saved_at="",
                incarnation=self.incarnation,
                shards=ShardList(0, 0, ""),
                setup=run_setup(args),
                validation_loss=losses[0] if losses else None,
            )
            place = LocalPlace(args.save)
            done = _fenced(lambda: commit(place, files, record, visible_after_seconds())).record
            self._retirement.after_commit(place)
            return f"{done.shards.files} files, {format_bytes(done.shards.size)}"

        summary = first_rank(create)
        if rank() == 0:
            print(  # noqa: T201
                f"seatrial: committed the checkpoint at step {save.step}: {summary}", flush=True
            )


def _save_once(original: Wrapped) -> Wrapped:
    """Skip a second save of a step.

    The engine saves before a step with a larger batch, even if it has just saved that step at the
    usual interval.
    """
    saved: list[int] = []

    def save_checkpoint_and_time(iteration: int, *args: Any, **kwargs: Any) -> Any:
        if saved == [iteration]:
            return None
        result = original(iteration, *args, **kwargs)
        saved[:] = [iteration]
        return result

    return save_checkpoint_and_time


def run_setup(args: Namespace) -> Setup:
    """Return the configuration that this run's checkpoints depend on."""
    versions = Versions(VERSION, f"megatron-core {engine_version}", torch.__version__)
    return setup_from_arguments(vars(args), versions, int(args.world_size))


def _fenced[T](action: Callable[[], T]) -> T:
    """Run an action; raise a final error if a later start has replaced this one."""
    try:
        return action()
    except StaleStartError as error:
        raise StopError(StopCode.STALE, str(error)) from error


class _TrackerText(io.StringIO):
    """The text that the engine writes to its tracker. Replaces the file when closed."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = Path(path)

    def close(self) -> None:
        if not self.closed:
            write_tracker(LocalPlace(self._path.parent), TRACKER, self.getvalue())
        super().close()

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()


class _WholeTracker:
    """The engine's file functions, which replace its tracker atomically."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)

    def open(self, path: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if mode == "w" and os.path.basename(str(path)) == TRACKER:
            return _TrackerText(str(path))
        return self._original.open(path, mode, *args, **kwargs)
