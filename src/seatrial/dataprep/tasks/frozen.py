# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The stored state of a frozen list: the list, its tokenizer and its records."""

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
    """Return work files that no record refers to and whose writers are dead.

    Args:
        store: The store of the output.
        name: Short name of the frozen list.
        winners: The attempt in the record of each finished task.
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
    """Return the part files that an attempt wrote."""
    below = part_prefix(name, 0, attempt).rpartition("/")[0]
    return [file.path for file in store.list(below) if f".{attempt}" in file.path]


WORK = "work"
"""Directory of everything that exists only during the preparation."""
_READERS = 16
"""Records to read in parallel: in object stores each costs a round trip."""


CURRENT = f"{WORK}/current"
"""File with the name of the list that was frozen last, for workers that do not know the name."""


def freeze_into(store: Store, frozen: bytes, tokenizer: bytes) -> TaskList:
    """Write the tokenizer and then the list; an existing list is continued."""
    tasks = thaw(frozen)
    _put(store, tokenizer_file(tasks.name), tokenizer, lambda data: data)
    # With the same digest only the limits can differ: those of this start apply.
    _put(store, tasks_file(tasks.name), frozen, lambda data: thaw(data).digest)
    if current_list(store) != tasks.name:
        with store.open_writer(CURRENT) as stream:
            stream.write(tasks.name.encode())
    return tasks


def current_list(store: Store) -> str | None:
    """Return the name of the list that was frozen last; None if there is none."""
    try:
        return store.read(CURRENT).decode("ascii", "replace")
    except FileNotFoundError:
        return None


def _put(store: Store, path: str, data: bytes, identity: Callable[[bytes], object]) -> None:
    """Create a file, or replace one with the same identity; otherwise raise an error."""
    if store.create(path, data):
        return
    there = store.read(path)
    if there == data:
        return
    # A kill leaves an empty file on a file system without links.
    if there and not _is_same(there, data, identity):
        above = path.rpartition("/")[0]
        raise SeatrialError(
            f"{store.address}/{path} was changed after it was written. "
            f"Delete {store.address}/{above} and rerun the command."
        )
    with store.open_writer(path) as stream:
        stream.write(data)


def _is_same(there: bytes, data: bytes, identity: Callable[[bytes], object]) -> bool:
    try:
        return identity(there) == identity(data)
    except (ValueError, TypeError, KeyError, AttributeError):
        return False


def load_records(store: Store, tasks: TaskList) -> dict[int, PartRecord]:
    """Return the records of finished tasks; delete records of different lists."""
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
    """Read a record; None if it is missing or invalid."""
    try:
        return PartRecord.from_json(store.read(path))
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def forget(store: Store, tasks: TaskList, records: Iterable[PartRecord]) -> None:
    """Delete records, and then their files, so that their tasks run again."""
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
    """Delete the files of dead attempts; those of other live processes stay."""
    store.sweep(f"{WORK}/{tasks.name}")
    winners = {number: record.attempt for number, record in records.items()}
    store.delete(dead_files(store, tasks.name, winners))
