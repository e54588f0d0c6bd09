# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Count a run's starts, and select the checkpoint to resume from, for all engines.

All ranks participate: each verifies a share of the files. A checkpoint is selected only if every
rank finds its share valid and sees the same record.
"""

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from seatrial.checkpoints.inventory import Checkpoint, checkpoints, newest_step, tracked_step
from seatrial.checkpoints.record import Record
from seatrial.checkpoints.resumable_verification import note_verified
from seatrial.checkpoints.select import ResumeRequest, candidates, nothing_good
from seatrial.checkpoints.starts import FRUITLESS_STARTS, claim, no_progress, read_starts
from seatrial.checkpoints.stopping import StopCode, stop
from seatrial.checkpoints.verification import Share, Verifier, read_record
from seatrial.codes.checkpoints import CheckpointCode, found
from seatrial.findings import Finding, Severity
from seatrial.monitoring.event_log import EventKind, EventLog
from seatrial.storage.location import LocalPlace
from seatrial.storage.visibility import visible_after_seconds, wait_until
from seatrial.worker.collectives import first_rank, gathered, rank, world_size
from seatrial.worker.settings import Settings

_THREADS = 2
"""Number of files that a rank reads in parallel; a node has several ranks."""

Chosen = Callable[[LocalPlace, ResumeRequest, int], None]
"""Called on the first rank with the selected step."""


class Chooser:
    """Registers a start, and selects its checkpoint."""

    def __init__(self, chosen: Settings) -> None:
        self._settings = chosen

    def begin_start(self, save: str) -> int:
        """Claim the next incarnation. Stop if too many earlier starts made no progress."""

        def begin() -> int:
            place = LocalPlace(save)
            start = claim(place, self._settings.attempt, newest_step(place))
            allowed = self._settings.fruitless_starts or FRUITLESS_STARTS
            starts = read_starts(place, allowed + 1)
            finding = no_progress(starts, place.address, allowed) if start.attempt else None
            if finding is not None:
                raise stop(StopCode.NO_PROGRESS, finding)
            return start.incarnation

        return first_rank(begin)

    def choose(self, request: ResumeRequest, on_choice: Chosen | None = None) -> Checkpoint | None:
        """Return the checkpoint to load; None if there is none and the run may start at step 0."""
        place = LocalPlace(request.address)
        there = first_rank(lambda: list(checkpoints(place)))
        for one in there:
            if one.record is None and request.step in (None, one.step):
                self._report(one.step, one.findings)
        for one in candidates(request, there):
            if self._good(place, one, noting=not (request.foreign or request.borrowed)):
                if on_choice is not None:
                    first_rank(lambda one=one: on_choice(place, request, one.step))  # type: ignore[misc]
                self.say(f"verified the checkpoint at step {one.step}: resuming from it")
                return one
        first_rank(lambda: _refuse(place, request, there))
        return None

    def print(self, finding: Finding) -> None:
        """Print a finding on this rank."""
        self.say(f"{finding.severity} {finding.code} {finding.one_line()}", to_all=True)

    def say(self, text: str, to_all: bool = False) -> None:
        """Print a message on the first rank, or on every rank that calls this."""
        if to_all or rank() == 0:
            print(f"seatrial: {text}", file=sys.stderr, flush=True)  # noqa: T201

    def _good(self, place: LocalPlace, one: Checkpoint, *, noting: bool) -> bool:
        """True if all ranks find a checkpoint valid. Each rank reads its share."""
        findings = _share_of(place, one.directory, one.record)
        every = [finding for findings in gathered(findings) for finding in findings]
        self._report(one.step, every)
        if noting and rank() == 0 and one.record is not None:
            # Retention must not count a checkpoint as valid that is known to be damaged.
            note_verified(place, one.directory, one.record, every)
        return not any(finding.severity is Severity.ERROR for finding in every)

    def _report(self, step: int, findings: Iterable[Finding]) -> None:
        """Report the problems with a checkpoint, in the log and as events."""
        events = self._settings.events if self._settings.writes_events else None
        for finding in findings:
            if rank() == 0:
                self.print(finding)
            if events is not None:
                values = json.loads(json.dumps(finding.to_dict()))
                EventLog(events).write(EventKind.FINDING, step, **values)


def _refuse(place: LocalPlace, request: ResumeRequest, there: list[Checkpoint]) -> None:
    """Raise StopError if the run must not start at step 0."""
    refusal = nothing_good(request, there, tracked_step(place))
    if refusal is not None:
        raise refusal


def _share_of(place: LocalPlace, directory: str, wanted: Record | None) -> list[Finding]:
    """Verify this rank's share of a checkpoint."""
    record: Record | None = None
    findings: list[Finding] = []

    def is_same() -> bool:
        nonlocal record, findings
        record, findings = read_record(place, directory)
        return record is not None and wanted is not None and record.identity == wanted.identity

    # The node that wrote the record may have done so just before the restart.
    patience = visible_after_seconds() if wanted is not None else 0.0
    if not wait_until(is_same, patience) or record is None:
        rule = f"rank {rank()} does not see the same record as the first rank."
        fix = "Check that all nodes mount the same volume."
        where = str(Path(place.address, directory))
        return [*findings, found(CheckpointCode.NODES_DIFFER, where, rule, fix)]
    verifier = Verifier(place, directory, record, _THREADS)
    return verifier.verify(Share(rank(), world_size()))
