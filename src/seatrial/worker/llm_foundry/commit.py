# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The commit protocol around Composer's save, and the selection of a checkpoint to load.

As with Megatron, a save is valid as soon as its record exists (`seatrial.checkpoints.commit`).
Composer has no hook during the write, so each rank reads a share of the files again right after the
write. The digests cover the bytes that the disk returns at that time.
"""

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from composer.utils import dist, get_device
from llmfoundry import __version__ as engine_version
from omegaconf import OmegaConf
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from seatrial.checkpoints.commit import commit, make_room, read_back, saved_names
from seatrial.checkpoints.inventory import Checkpoint
from seatrial.checkpoints.naming import METADATA, RECORD
from seatrial.checkpoints.record import Record, ShardFile, ShardList
from seatrial.checkpoints.select import ResumeRequest
from seatrial.checkpoints.setup import Setup, Versions
from seatrial.checkpoints.starts import StaleStartError
from seatrial.checkpoints.stopping import StopCode, StopError, stop
from seatrial.codes.checkpoints import CheckpointCode, found
from seatrial.engines.llm_foundry.checkpoints import (
    WHOLE,
    WHOLE_FILE,
    flat,
    refuse_foreign,
    setup_from_settings,
)
from seatrial.engines.llm_foundry.settings import NAMING
from seatrial.storage.location import LocalPlace
from seatrial.storage.visibility import visible_after_seconds
from seatrial.units import format_bytes
from seatrial.version import VERSION
from seatrial.worker.checkpointing.retention import Retirement
from seatrial.worker.checkpointing.select_checkpoint import Chooser
from seatrial.worker.collectives import first_rank, gathered_at_first, rank, world_size
from seatrial.worker.settings import Settings

TIMEOUT = 600.0
"""LLM Foundry's default timeout for ranks that wait for each other."""


class ComposerCommitter:
    """Commits this run's saves, and resumes from the newest valid checkpoint."""

    def __init__(self, chosen: Settings, configured: Any) -> None:
        """Store the worker's settings and LLM Foundry's settings, which a resumed run changes."""
        self._chooser = Chooser(chosen)
        self._configured = configured
        self._given = flat(OmegaConf.to_container(configured, resolve=True))
        self._retirement = Retirement()
        self._save = str(configured.get("save_folder") or "")
        self.incarnation = 0
        self.validation_loss: float | None = None
        """The loss of the last evaluation."""

    @contextmanager
    def resuming(self) -> Iterator[None]:
        """Claim this start, and set the verified checkpoint that training loads.

        A run without its own checkpoints loads the configured checkpoint, if any.
        """
        resumes = False
        if self._save and self._configured.get("autoresume") and "://" not in self._save:
            resumes = self._choose()
        if not resumes and self._configured.get("load_path"):
            self._configured.load_path = self._looked_at(str(self._configured.load_path))
        with TemporaryDirectory(prefix="seatrial-whole-") as scratch:
            self._put_together(Path(scratch))
            yield

    def _choose(self) -> bool:
        """Select the run's newest valid checkpoint. Return True if there is one."""
        configured = self._configured
        join_ranks(configured)
        self.incarnation = self._chooser.begin_start(self._save)
        # Composer would follow a link to the last save, even if the save is not verified.
        configured.autoresume = False
        one = self._chooser.choose(ResumeRequest(self._save))
        if one is None or one.record is None:
            return False
        for name in ("load_weights_only", "load_ignore_keys"):
            configured.pop(name, None)
        configured.load_path = _loaded_as(Path(self._save), one)
        return True

    def _looked_at(self, load: str) -> str:
        """Return the path to load for a configured path; verify the checkpoint if it has a record.

        A checkpoint without a record is accepted if its pickles use only names that a checkpoint
        needs: Composer would execute anything that they name.
        """
        join_ranks(self._configured)
        path = Path(load)

        def asked() -> ResumeRequest | None:
            holder = path.parent if path.is_file() else path
            step = NAMING.step_of(holder.name)
            if step is not None and (holder / RECORD).is_file():
                return ResumeRequest(str(holder.parent), step, borrowed=True)
            if path.is_dir() and any(NAMING.step_of(one.name) for one in path.iterdir()):
                return ResumeRequest(load, foreign=True)
            refuse_foreign(load)
            return None

        request = first_rank(asked)
        if request is None:
            return load
        one = self._chooser.choose(request)
        if one is None:
            rule, fix = (
                "the location contains no complete checkpoint.",
                "Use different weights as initial_weights.checkpoint.",
            )
            finding = found(CheckpointCode.NONE_GOOD, load, rule, fix)
            raise stop(StopCode.NO_CHECKPOINT, finding)
        return _loaded_as(Path(request.address), one)

    def _put_together(self, scratch: Path) -> None:
        """Merge a sharded checkpoint for a single rank.

        On a single rank, Composer does not shard, and loads only merged checkpoints.
        """
        load = str(self._configured.get("load_path") or "")
        if dist.get_world_size() == 1 and load and Path(load, METADATA).is_file():
            dcp_to_torch_save(load, scratch / WHOLE_FILE)
            self._configured.load_path = str(scratch / WHOLE_FILE)

    @contextmanager
    def committing(self, state: Any) -> Iterator[None]:
        """Create a new directory for a save, and commit the save afterwards."""
        if not self.incarnation:
            yield
            return
        step = int(state.timestamp.batch)
        directory = Path(self._save, NAMING.directory_name(step))
        first_rank(lambda: self._make_room(step, directory))
        yield
        self._finish(step, int(state.timestamp.sample), directory)

    def _make_room(self, step: int, directory: Path) -> None:
        place = LocalPlace(self._save)
        aside = _fenced(lambda: make_room(place, directory.name, self.incarnation))
        if aside is not None:
            _say(f"step {step} is saved again; moved the old checkpoint to {aside}")
        # Files from an interrupted save would otherwise count as part of this one.
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)

    def _finish(self, step: int, samples: int, directory: Path) -> None:
        """Read the files back, combine the digests of all ranks, and commit."""
        patience = visible_after_seconds()
        names = first_rank(lambda: saved_names(directory, patience))
        mine = [read_back(directory / name, patience) for name in names[rank() :: world_size()]]
        every = gathered_at_first(mine)

        def create() -> str:
            files: list[ShardFile] = [file for share in every for file in share]
            record = Record(
                step=step,
                consumed_samples=samples,
                saved_at="",
                incarnation=self.incarnation,
                shards=ShardList(0, 0, ""),
                setup=self._setup(),
                validation_loss=self.validation_loss,
            )
            place = LocalPlace(self._save)
            done = _fenced(lambda: commit(place, files, record, patience)).record
            self._retirement.after_commit(place)
            number = done.shards.files
            count = f"{number} file{'s' if number != 1 else ''}"
            return f"{count}, {format_bytes(done.shards.size)}"

        summary = first_rank(create)
        if rank() == 0:
            _say(f"committed the checkpoint at step {step}: {summary}")

    def _setup(self) -> Setup:
        versions = Versions(VERSION, f"llm-foundry {engine_version}", torch.__version__)
        return setup_from_settings(self._given, versions, world_size())


def _loaded_as(root: Path, one: Checkpoint) -> str:
    """Return Composer's load path for a checkpoint: a directory with shards, or one file."""
    sharded = one.record is not None and one.record.setup.checkpoint_format != WHOLE
    return str(root / one.directory if sharded else root / one.directory / WHOLE_FILE)


def join_ranks(configured: Any) -> None:
    """Initialise the process group as Composer does later; repeated calls have no effect.

    Code that needs a process group earlier must not create and destroy its own: the second
    rendezvous would find the first one's store, which is about to close.
    """
    timeout = float(configured.get("dist_timeout") or TIMEOUT)
    dist.initialize_dist(get_device(None), timeout=timeout)


def _fenced[T](action: Callable[[], T]) -> T:
    """Run an action; raise a final error if a later start has replaced this one."""
    try:
        return action()
    except StaleStartError as error:
        raise StopError(StopCode.STALE, str(error)) from error


def _say(text: str) -> None:
    sys.stderr.write(f"seatrial: {text}\n")
    sys.stderr.flush()
