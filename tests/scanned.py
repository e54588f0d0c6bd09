# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Scan checkpoints that an engine wrote: the scanner must let every one of them pass."""

import os
from pathlib import Path

from seatrial.checkpoints.naming import METADATA, RECORD, is_archive
from seatrial.checkpoints.pickle_rules import METADATA_RULES
from seatrial.checkpoints.pickle_scan import scan_pickle
from seatrial.checkpoints.scan import scan_archive

HOSTILE = ("crafted", "runs_code")
"""In the name of a test, and so of its directory: it writes hostile checkpoints, with records."""


def scan_checkpoint(place: Path) -> None:
    """Scan a file, or all of a directory; raise UnsafeFileError if something is refused."""
    if place.is_file():
        with place.open("rb") as stream:
            scan_archive(stream)
        return
    if (place / METADATA).exists():
        listed = scan_pickle((place / METADATA).read_bytes(), METADATA_RULES).value
        for item in listed.storage_data.values():
            with (place / item.relative_path).open("rb") as stream:
                scan_archive(stream, offset=item.offset, length=item.length)
    for file in place.iterdir():
        if file.is_file() and is_archive(file.name):
            scan_checkpoint(file)


def scan_recorded(root: Path) -> int:
    """Scan all checkpoints below a directory that have a record; return their number.

    The record is written last. A file that is newer, or gone, is one that a test has damaged.
    """
    count = 0
    for directory, inner, names in os.walk(root):
        inner[:] = [one for one in inner if not any(word in one for word in HOSTILE)]
        if RECORD not in names:
            continue
        place = Path(directory)
        recorded = (place / RECORD).stat().st_mtime_ns
        engine = [place / name for name in names if not name.startswith("seatrial-")]
        if all(file.stat().st_mtime_ns <= recorded for file in engine):
            scan_checkpoint(place)
            count += 1
    return count
