# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Verification that is written down: how far it came, so that it can go on, and how it ended."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime

from seatrial.checkpoints.inventory import Checkpoint, Verification
from seatrial.checkpoints.naming import PIN, VERIFIED
from seatrial.checkpoints.place import Place
from seatrial.checkpoints.record import Record
from seatrial.checkpoints.verification import Verifier
from seatrial.dataprep.stores.store import StoreError
from seatrial.findings import Finding, Severity
from seatrial.hashing import canonical_json

NOTE_SECONDS = 10.0
"""How often a verification that goes on is written down."""

Tell = Callable[[int, int], None]
"""Told how many files and bytes are done."""


def verify_noting(
    place: Place, one: Checkpoint, *, threads: int = 0, anew: bool = False, tell: Tell | None = None
) -> list[Finding]:
    """What is wrong with a checkpoint; goes on where a verification of it was cut short."""
    if one.record is None:
        return list(one.findings)
    record, before = one.record, one.verification
    unfinished = before is not None and not before.wrong and before.files < record.shards.files
    skip = before.files if before is not None and unfinished and not anew else 0
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
    note_verified(place, one.directory, record, findings)
    return findings


def note_verified(
    place: Place, directory: str, record: Record, findings: Iterable[Finding]
) -> None:
    """Write down that all files of a checkpoint were read again, and what was found."""
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    _note(place, directory, record.identity, record.shards.files, errors)


def pin(place: Place, directory: str, why: str) -> None:
    """Keep a checkpoint from being pruned."""
    place.replace(f"{directory}/{PIN}", canonical_json({"why": why}).encode())


def unpin(place: Place, directory: str) -> None:
    """Let a checkpoint be pruned again."""
    place.store.delete([f"{directory}/{PIN}"])


def _note(place: Place, directory: str, record: str, files: int, wrong: int) -> None:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    # What is read may well lie where nothing can be written.
    with suppress(OSError, StoreError):
        note = Verification(now, record, files, wrong)
        place.replace(f"{directory}/{VERIFIED}", note.to_bytes())
