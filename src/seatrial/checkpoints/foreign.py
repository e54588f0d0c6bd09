# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Weights of Composer's that were saved without a record, looked through before they are loaded.

Nobody can tell whether they are what was saved. But Composer loads pickles that may do anything
(composer 0.32.1, utils/checkpoint.py; torch 2.7.0, distributed/checkpoint/filesystem.py), so that
those that name anything but what a checkpoint is made of are refused.
"""

from collections import defaultdict
from pathlib import Path

from seatrial.checkpoints.archives import refuse_code
from seatrial.checkpoints.codes import CheckpointCode, found
from seatrial.checkpoints.naming import METADATA
from seatrial.checkpoints.pickles import PickleError, StoredItem, stored_items
from seatrial.checkpoints.stopping import StopCode, stop
from seatrial.checkpoints.verification import unreadable


def refuse_foreign(load: str) -> None:
    """Raise StopError where a file, or a directory of shards, must not be loaded."""
    if "://" in load:
        rule = "what lies at an address would be loaded without having been looked at."
        fix = "Copy it first, and name the directory: seatrial checkpoints copy, or the store's."
        raise stop(StopCode.NO_CHECKPOINT, found(CheckpointCode.UNRECORDED, load, rule, fix, load))
    path = Path(load)
    try:
        for file, items in _items(path).items():
            with file.open("rb") as stream:
                refuse_code(stream, items)
    except PickleError as error:
        rule = f"it holds what no checkpoint needs: {error}. Nothing of it was run."
        fix = "Do not load it. Find out who wrote it, or begin with other weights."
        raise stop(StopCode.NO_CHECKPOINT, found(CheckpointCode.PICKLE, load, rule, fix)) from error
    except OSError as error:
        raise stop(StopCode.NO_CHECKPOINT, unreadable(load, error)) from error


def _items(path: Path) -> dict[Path, list[StoredItem]]:
    """Every item of a checkpoint, by file; one that is not sharded is one item."""
    if not path.is_dir():
        return {path: [StoredItem(path.name, path.name, 0, path.stat().st_size)]}
    found_items: dict[Path, list[StoredItem]] = defaultdict(list)
    for item in stored_items((path / METADATA).read_bytes()):
        if "/" in item.file:
            raise PickleError(f"the list of tensors points at {item.file!r}")
        found_items[path / item.file].append(item)
    return found_items
