# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Verification that records its progress and its result, so that it can be resumed."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime

from seatrial.checkpoints.inventory import SCANNER, Checkpoint, Verification
from seatrial.checkpoints.naming import PIN, VERIFIED
from seatrial.checkpoints.record import Record
from seatrial.checkpoints.verification import Verifier
from seatrial.findings import Finding, Severity
from seatrial.hashing import canonical_json
from seatrial.storage.location import Location
from seatrial.storage.store import StoreError

NOTE_SECONDS = 10.0
"""Interval at which a running verification records its progress."""

Tell = Callable[[int, int], None]
"""Progress callback: the number of files and bytes done."""


def verify_noting(
    place: Location,
    one: Checkpoint,
    *,
    threads: int = 0,
    again: bool = False,
    tell: Tell | None = None,
) -> list[Finding]:
    """Verify a checkpoint, or continue an interrupted verification.

    An already verified checkpoint is only scanned for unsafe code, unless `again` is set.
    """
    if one.record is None:
        return list(one.findings)
    record, before = one.record, one.verification
    skip = before.files if before is not None and not before.wrong and not again else 0
    last = time.monotonic()

    def note(files: int, size: int) -> None:
        nonlocal last
        if tell is not None:
            tell(files, size)
        if time.monotonic() - last >= NOTE_SECONDS:
            last = time.monotonic()
            _note(place, one.directory, record.identity, files, verifier.wrong)

    verifier = Verifier(place, one.directory, record, threads)
    findings = verifier.verify(skip=skip, tell=note)
    if findings or skip < record.shards.files:
        note_verified(place, one.directory, record, findings)
    return findings


def note_verified(
    place: Location, directory: str, record: Record, findings: Iterable[Finding]
) -> None:
    """Record that all files of a checkpoint were verified, and the number of errors."""
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    _note(place, directory, record.identity, record.shards.files, errors)


def pin(place: Location, directory: str, why: str) -> None:
    """Protect a checkpoint from pruning."""
    place.replace(f"{directory}/{PIN}", canonical_json({"why": why}).encode())


def unpin(place: Location, directory: str) -> None:
    """Allow pruning to delete a checkpoint again."""
    place.store.delete([f"{directory}/{PIN}"])


def _note(place: Location, directory: str, record: str, files: int, wrong: int) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    # The checkpoint may be on read-only storage.
    with suppress(OSError, StoreError):
        note = Verification(now, record, files, wrong, SCANNER)
        place.replace(f"{directory}/{VERIFIED}", note.to_bytes())
