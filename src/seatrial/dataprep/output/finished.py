# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A data set that has its record: what is there counts, and the work on it can go."""

import json
from collections.abc import Iterable

from seatrial.dataprep.output.dataset import RECORD_FILE, DatasetRecord
from seatrial.dataprep.output.quarantine import QUARANTINE_FILE
from seatrial.dataprep.stores.store import Store
from seatrial.dataprep.tasks.frozen import WORK
from seatrial.errors import SeatrialError


class OtherDataError(SeatrialError):
    """Where the data should go there are others already."""


def finished_record(store: Store) -> DatasetRecord | None:
    """The record of the data set that is there, if one is."""
    try:
        return DatasetRecord.from_json(store.read(RECORD_FILE))
    except FileNotFoundError:
        return None


def remove_work(store: Store, record: DatasetRecord) -> None:
    """Remove all work, once the data set has its record: nothing of it can be needed any more.

    Work on other lists goes too, with the files that it had put in place: its data set could not
    have its record here. So does a list of bad lines that is not of this data set.
    """
    # Else a loss of power could take the record, or a file's name, and the parts were gone too.
    store.sync()
    paths = [file.path for file in store.list(WORK)]
    kept = {path for file in record.files for path in (file.tokens_file, file.index_file)}
    store.delete(path for path in _put_in_place(store, paths) if path not in kept)
    if record.quarantine_file is None:
        store.delete([QUARANTINE_FILE])
    store.delete(paths)
    store.sweep(WORK, everything=True)
    store.sweep()


def _put_in_place(store: Store, paths: Iterable[str]) -> Iterable[str]:
    """Files in the root that assembling any list has recorded."""
    for path in paths:
        if "/assembled/" in path and path.endswith(".json"):
            try:
                name = json.loads(store.read(path))["name"]
            except (FileNotFoundError, ValueError, KeyError, TypeError):
                continue
            yield f"{name}.bin"
            yield f"{name}.idx"
