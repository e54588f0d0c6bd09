# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The start of a run: which start it is, and which checkpoint it goes on from.

All ranks take part: each reads a share of the files again, and a checkpoint is taken only when
every rank finds its share good and sees the same record. The engine is then told the step.
"""

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from megatron.training import get_args
from megatron.training import training as engine

from seatrial.checkpoints.choice import Request, candidates, nothing_good, tracker_finding
from seatrial.checkpoints.codes import CheckpointCode, found
from seatrial.checkpoints.commit import write_tracker
from seatrial.checkpoints.inventory import Checkpoint, checkpoints, newest_step, tracked_step
from seatrial.checkpoints.noting import note_verified
from seatrial.checkpoints.place import LocalPlace
from seatrial.checkpoints.record import Record
from seatrial.checkpoints.starts import FRUITLESS_STARTS, claim, no_progress, read_starts
from seatrial.checkpoints.stopping import StopCode, stop
from seatrial.checkpoints.verification import Share, Verifier, read_record
from seatrial.findings import Finding, Severity
from seatrial.monitoring.event_log import EventKind, EventLog
from seatrial.worker.commit import Keeper
from seatrial.worker.following import Followed, comparing, follow
from seatrial.worker.loading import loading
from seatrial.worker.settings import Settings
from seatrial.worker.together import first_rank, gathered, rank, world_size

Wrapped = Callable[..., Any]
COMMITTED_FORMAT = "torch_dist"
"""The engine's format whose saves get a record; a start must not look for one of others."""
_THREADS = 2
"""Files that a rank reads at a time; a node has several ranks."""


class Resumption:
    """Chooses before the engine loads."""

    def __init__(self, chosen: Settings, keeper: Keeper) -> None:
        """Choose for one start of the processes."""
        self._settings = chosen
        self._keeper = keeper

    def install(self) -> None:
        """Put the choice before the engine's own loading."""
        engine.setup_model_and_optimizer = self._watch_setup(engine.setup_model_and_optimizer)

    def _watch_setup(self, original: Wrapped) -> Wrapped:
        def setup_model_and_optimizer(*args: Any, **kwargs: Any) -> Any:
            told = get_args()
            if told.ckpt_format != COMMITTED_FORMAT:
                self._say(
                    f"saves as {told.ckpt_format} have no record: the engine chooses by itself"
                )
                with loading(told, None):
                    return original(*args, **kwargs)
            if told.save is not None:
                self._keeper.incarnation = self._begin_start(told)
            step, parent = self._choose(told)
            with loading(told, step), comparing(told, parent):
                return original(*args, **kwargs)

        return setup_model_and_optimizer

    def _begin_start(self, told: Namespace) -> int:
        """Take the next incarnation; stop where too many before have come to nothing."""

        def begin() -> int:
            place = LocalPlace(told.save)
            start = claim(place, self._settings.attempt, newest_step(place))
            allowed = self._settings.fruitless_starts or FRUITLESS_STARTS
            starts = read_starts(place, allowed + 1)
            finding = no_progress(starts, place.address, allowed) if start.attempt else None
            if finding is not None:
                raise stop(StopCode.NO_PROGRESS, finding)
            return start.incarnation

        return first_rank(begin)

    def _choose(self, told: Namespace) -> tuple[int | None, Followed | None]:
        """The step to load, and the parent where it is the parent's; none where none is needed."""
        parent = self._settings.parent
        if told.load is not None:
            own = self._choose_at(Request(told.load, told.ckpt_step, bool(told.finetune)))
            if own is not None:
                return own.step, None
        if parent is not None:
            found = self._choose_at(Request(parent.address, parent.step, borrowed=True))
            followed = first_rank(lambda: follow(told, parent, found, world_size()))
            return followed.step, followed
        if told.pretrained_checkpoint is not None:
            request = Request(told.pretrained_checkpoint, told.ckpt_step, foreign=True)
            first = self._choose_at(request)
            return (first.step if first else None), None
        return None, None

    def _choose_at(self, request: Request) -> Checkpoint | None:
        place = LocalPlace(request.address)
        there = first_rank(lambda: list(checkpoints(place)))
        for one in there:
            if one.record is None and request.step in (None, one.step):
                self._tell(one.step, one.findings)
        for one in candidates(request, there):
            if self._good(place, one, noting=not (request.foreign or request.borrowed)):
                first_rank(lambda one=one: self._track(place, request, one.step))  # type: ignore[misc]
                self._say(f"step {one.step} is verified: going on from there")
                return one
        first_rank(lambda: self._refuse(place, request, there))
        return None

    def _refuse(self, place: LocalPlace, request: Request, there: list[Checkpoint]) -> None:
        """Stop where a start must not begin at step 0."""
        refusal = nothing_good(request, there, tracked_step(place))
        if refusal is not None:
            raise refusal

    def _good(self, place: LocalPlace, one: Checkpoint, *, noting: bool) -> bool:
        """Whether all ranks find a checkpoint good; each reads its share."""
        findings = _share_of(place, one.directory, one.record)
        every = [finding for findings in gathered(findings) for finding in findings]
        self._tell(one.step, every)
        if noting and rank() == 0 and one.record is not None:
            # What is known to be damaged takes no good one's place when old ones are removed.
            note_verified(place, one.directory, one.record, every)
        return not any(finding.severity is Severity.ERROR for finding in every)

    def _track(self, place: LocalPlace, request: Request, step: int) -> None:
        """Have the engine's tracker name the chosen step; the engine reads it in any case."""
        tracked = tracked_step(place)
        chosen = request.step is not None or request.borrowed
        if tracked == step or (chosen and tracked not in (None, -1)):
            return
        finding = tracker_finding(request, step, tracked)
        if finding is not None:
            self._print(finding)
        write_tracker(place, str(step))

    def _tell(self, step: int, findings: Iterable[Finding]) -> None:
        """Say what is wrong with a checkpoint, in the log and as events."""
        events = self._settings.events if self._settings.writes_events else None
        for finding in findings:
            if rank() == 0:
                self._print(finding)
            if events is not None:
                values = json.loads(json.dumps(finding.to_dict()))
                EventLog(events).write(EventKind.FINDING, step, **values)

    def _print(self, finding: Finding) -> None:
        self._say(f"{finding.severity} {finding.code} {finding.one_line()}", to_all=True)

    def _say(self, text: str, to_all: bool = False) -> None:
        if to_all or rank() == 0:
            print(f"seatrial: {text}", file=sys.stderr, flush=True)  # noqa: T201


def _share_of(place: LocalPlace, directory: str, wanted: Record | None) -> list[Finding]:
    """What this rank finds wrong with its share of a checkpoint."""
    record, findings = read_record(place, directory)
    if record is None or wanted is None or record.identity != wanted.identity:
        rule = f"rank {rank()} does not see the record that the first rank sees."
        fix = "Check that all nodes have mounted the same volume."
        where = str(Path(place.address, directory))
        return [*findings, found(CheckpointCode.NODES_DIFFER, where, rule, fix)]
    verifier = Verifier(place, directory, record, _THREADS)
    return verifier.verify(Share(rank(), world_size()))
