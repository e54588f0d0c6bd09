# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Select the checkpoint that a start resumes from, and pass its step to the engine."""

from argparse import Namespace
from collections.abc import Callable
from typing import Any

from megatron.training import get_args
from megatron.training import training as engine

from seatrial.checkpoints.commit import write_tracker
from seatrial.checkpoints.inventory import tracked_step
from seatrial.checkpoints.select import ResumeRequest, tracker_finding
from seatrial.engines.megatron.checkpoint_names import TRACKER
from seatrial.storage.location import LocalPlace
from seatrial.worker.checkpointing.loading import loading
from seatrial.worker.checkpointing.select_checkpoint import Chooser
from seatrial.worker.collectives import first_rank, world_size
from seatrial.worker.megatron.commit import MegatronCommitter
from seatrial.worker.megatron.continue_from import Followed, comparing, follow
from seatrial.worker.settings import Settings

Wrapped = Callable[..., Any]
COMMITTED_FORMAT = "torch_dist"
"""The only checkpoint format whose saves get a record."""


class Resumption:
    """Selects a checkpoint before the engine loads."""

    def __init__(self, chosen: Settings, keeper: MegatronCommitter) -> None:
        self._settings = chosen
        self._chooser = Chooser(chosen)
        self._keeper = keeper

    def install(self) -> None:
        """Wrap the engine's setup, which loads the checkpoint."""
        engine.setup_model_and_optimizer = self._watch_setup(engine.setup_model_and_optimizer)

    def _watch_setup(self, original: Wrapped) -> Wrapped:
        def setup_model_and_optimizer(*args: Any, **kwargs: Any) -> Any:
            engine_args = get_args()
            if engine_args.ckpt_format != COMMITTED_FORMAT:
                self._chooser.say(
                    f"checkpoints in the format {engine_args.ckpt_format} have no record; "
                    "the engine selects the checkpoint to load"
                )
                with loading(engine_args, None):
                    return original(*args, **kwargs)
            if engine_args.save is not None:
                self._keeper.incarnation = self._chooser.begin_start(engine_args.save)
            step, parent = self._choose(engine_args)
            with loading(engine_args, step), comparing(engine_args, parent):
                return original(*args, **kwargs)

        return setup_model_and_optimizer

    def _choose(self, engine_args: Namespace) -> tuple[int | None, Followed | None]:
        """Return the step to load, and the parent if the step is the parent's; None if no load."""
        parent = self._settings.parent
        if engine_args.load is not None:
            request = ResumeRequest(
                engine_args.load, engine_args.ckpt_step, bool(engine_args.finetune)
            )
            own = self._chooser.choose(request, self._track)
            if own is not None:
                return own.step, None
        if parent is not None:
            request = ResumeRequest(parent.address, parent.step, borrowed=True)
            found = self._chooser.choose(request, self._track)
            followed = first_rank(lambda: follow(engine_args, parent, found, world_size()))
            return followed.step, followed
        if engine_args.pretrained_checkpoint is not None:
            request = ResumeRequest(
                engine_args.pretrained_checkpoint, engine_args.ckpt_step, foreign=True
            )
            first = self._chooser.choose(request, self._track)
            return (first.step if first else None), None
        return None, None

    def _track(self, place: LocalPlace, request: ResumeRequest, step: int) -> None:
        """Write the selected step to the engine's tracker, which the engine always reads."""
        tracked = tracked_step(place)
        chosen = request.step is not None or request.borrowed
        if tracked == step or (chosen and tracked not in (None, -1)):
            return
        finding = tracker_finding(request, TRACKER, step, tracked)
        if finding is not None:
            self._chooser.print(finding)
        write_tracker(place, TRACKER, str(step))
