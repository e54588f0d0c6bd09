# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The work on a frozen list, as it lies in the store: the list and its records."""

import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from seatrial.dataprep.tasks.records import (
    PartRecord,
    part_prefix,
    record_file,
    tasks_file,
    tokenizer_file,
)
from seatrial.dataprep.tasks.task_list import TaskList, thaw
from seatrial.errors import SeatrialError
from seatrial.storage.store import Store
from seatrial.storage.writer_claims import is_dead

_WRITTEN = re.compile(
    r"(?:/parts/(?P<task>\d{6,}))?\.(?P<attempt>[0-9a-f]{8}-\d+-\d+-\d+)(?![\d-])[^/]*$"
)


def dead_files(store: Store, name: str, winners: Mapping[int, str]) -> list[str]:
    """Files of a list's work that no record names and whose writers are gone.

    Args:
        store: Where the data are prepared.
        name: The short name of the frozen list.
        winners: The attempt that the record names, for each task that has one.
    """
    dead = []
    for file in store.list(f"work/{name}"):
        match = _WRITTEN.search(file.path)
        if match is not None and is_dead(match["attempt"]):
            task = match["task"]
            if task is None or winners.get(int(task)) != match["attempt"]:
                dead.append(file.path)
    return dead


def files_of(store: Store, name: str, attempt: str) -> list[str]:
    """Files of parts that an attempt wrote."""
    below = part_prefix(name, 0, attempt).rpartition("/")[0]
    return [file.path for file in store.list(below) if f".{attempt}" in file.path]


WORK = "work"
"""All that is there only while data are prepared."""
_READERS = 16
"""Records that are read at a time: in object stores each costs a round trip."""


def freeze_into(store: Store, frozen: bytes, tokenizer: bytes) -> TaskList:
    """Write a list and its tokenizer, the list last; one that is there already is continued."""
    tasks = thaw(frozen)
    _put(store, tokenizer_file(tasks.name), tokenizer, lambda data: data)
    # With the same digest, the limits are what can differ: those of this start are to hold.
    _put(store, tasks_file(tasks.name), frozen, lambda data: thaw(data).digest)
    return tasks


def _put(store: Store, path: str, data: bytes, identity: Callable[[bytes], object]) -> None:
    """Create a file, or replace it by one of the same identity; an error when it has another."""
    if store.create(path, data):
        return
    there = store.read(path)
    if there == data:
        return
    # An empty one is of who was killed on a file system without links.
    if there and not _is_same(there, data, identity):
        above = path.rpartition("/")[0]
        raise SeatrialError(
            f"{store.address}/{path} was changed since it was written. "
            f"Remove {store.address}/{above} and start again."
        )
    with store.open_writer(path) as stream:
        stream.write(data)


def _is_same(there: bytes, data: bytes, identity: Callable[[bytes], object]) -> bool:
    try:
        return identity(there) == identity(data)
    except (ValueError, TypeError, KeyError, AttributeError):
        return False


def load_records(store: Store, tasks: TaskList) -> dict[int, PartRecord]:
    """The records of the tasks that are done. One that is not of this list is removed."""
    below = record_file(tasks.name, 0).rpartition("/")[0]
    paths = [file.path for file in store.list(below)]
    records: dict[int, PartRecord] = {}
    useless = []
    with ThreadPoolExecutor(_READERS) as pool:
        for path, record in zip(paths, pool.map(lambda p: _record(store, p), paths), strict=True):
            if record is None or record.list_digest != tasks.digest:
                useless.append(path)
            else:
                records[record.task] = record
    store.delete(useless)
    return records


def _record(store: Store, path: str) -> PartRecord | None:
    """A record; nothing when the file is none."""
    try:
        return PartRecord.from_json(store.read(path))
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def forget(store: Store, tasks: TaskList, records: Iterable[PartRecord]) -> None:
    """Remove records and their files, so that their tasks are done again; records first."""
    lost = list(records)
    store.delete(record_file(tasks.name, record.task) for record in lost)
    store.delete(
        path
        for record in lost
        for file in record.files
        for path in (file.tokens_file, file.lengths_file)
    )
    store.delete(record.quarantine_file for record in lost if record.quarantine_file)


def remove_orphans(store: Store, tasks: TaskList, records: dict[int, PartRecord]) -> None:
    """Remove what attempts that are gone left behind; those of live rivals stay."""
    store.sweep(f"{WORK}/{tasks.name}")
    winners = {number: record.attempt for number, record in records.items()}
    store.delete(dead_files(store, tasks.name, winners))
