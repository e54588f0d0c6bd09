# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a checkpoint is what was saved: every file read again and compared with the record.

Nothing is unpickled before the file that holds it has been compared. What is wrong becomes a
finding; a checkpoint without findings of severity error is good.
"""

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from seatrial.checkpoints.by_engine import format_of
from seatrial.checkpoints.naming import (
    FORMAT_FILE,
    METADATA,
    OURS,
    RECORD,
    engine_reads,
    is_archive,
    is_left_behind,
    shard_list_name,
    step_of,
)
from seatrial.checkpoints.pickle_rules import UnsafeFileError
from seatrial.checkpoints.record import (
    LARGEST_RECORD,
    Record,
    RecordError,
    ShardFile,
    ShardListError,
    read_list,
    record_from_bytes,
)
from seatrial.checkpoints.stored_tensors import StoredItem, scan_items, stored_items
from seatrial.codes.checkpoints import CheckpointCode, found
from seatrial.findings import Finding, Severity
from seatrial.storage.location import Location
from seatrial.storage.state_files import parse_json
from seatrial.storage.store import StoreError

BLOCK = 1 << 20
"""Bytes read at a time."""
AHEAD = 4
"""Files in hand for each thread."""
RESTORE = "Resume from another checkpoint, or restore the file from a copy."

Tell = Callable[[int, int], None]
"""Told how many files and bytes are done."""


@dataclass(frozen=True, slots=True)
class Share:
    """Which of the files to read, where several readers divide them."""

    part: int = 0
    """The number of this reader."""
    parts: int = 1
    """How many readers there are."""

    def has(self, index: int) -> bool:
        """Whether the file of that number is this reader's."""
        return index % self.parts == self.part


WHOLE = Share()


def read_record(place: Location, directory: str) -> tuple[Record | None, list[Finding]]:
    """The record of a checkpoint, and what is wrong with it; no record and no finding is torn."""
    where = f"{place.address}/{directory}/{RECORD}"
    try:
        with place.open(f"{directory}/{RECORD}") as stream:
            data = stream.read(LARGEST_RECORD + 1)
    except (FileNotFoundError, NotADirectoryError):
        rule = "the save did not come to its end: there is no record."
        fix = (
            "Nothing needs doing; a resume passes it by. Saving the step again removes what is "
            "there, and prune does when a newer one is committed."
        )
        return None, [found(CheckpointCode.TORN, where, rule, fix, severity=Severity.WARNING)]
    except (OSError, StoreError) as error:
        return None, [unreadable(where, error)]
    try:
        record = record_from_bytes(data)
    except RecordError as error:
        rule = f"the record is not what was written: {error}."
        return None, [found(CheckpointCode.RECORD, where, rule, RESTORE)]
    if record.step != step_of(directory):
        rule = f"the record is of step {record.step}."
        return None, [found(CheckpointCode.OTHER_STEP, where, rule, RESTORE, str(record.step))]
    return record, []


class Verifier:
    """Reads a checkpoint again."""

    def __init__(self, place: Location, directory: str, record: Record, threads: int = 0) -> None:
        """Compare the files of a directory with its record."""
        self._place = place
        self._directory = directory
        self._record = record
        self._list = shard_list_name(record.incarnation)
        self._threads = threads or min(8, os.cpu_count() or 1)
        self._items: dict[str, list[StoredItem]] = defaultdict(list)
        self.wrong = 0

    def verify(
        self, share: Share = WHOLE, skip: int = 0, tell: Tell | None = None
    ) -> list[Finding]:
        """What is wrong with the files of a share.

        The first `skip` of the list are not compared again. Their pickles are scanned all the
        same: whoever can write a file can write the note that says how many were compared.
        """
        findings = self._frame()
        if findings:
            return findings
        listed = enumerate(self._listed_again(findings))
        files = ((file, index >= skip) for index, file in listed if share.has(index))
        done, size = skip, 0
        for file, whole, wrong in self._examined(files):
            findings += wrong
            self.wrong = len(findings)
            if not whole:
                continue
            done, size = done + 1, size + file.size
            if tell is not None:
                tell(done, size)
        return findings

    def _where(self, name: str) -> str:
        return f"{self._place.address}/{self._directory}/{name}"

    def _listed(self) -> Iterator[ShardFile]:
        with self._place.open(f"{self._directory}/{self._list}") as stream:
            yield from read_list(stream, self._record.shards)

    def _listed_again(self, findings: list[Finding]) -> Iterator[ShardFile]:
        """The list once more; that it cannot be read any more is one of the findings."""
        try:
            yield from self._listed()
        except (ShardListError, OSError, StoreError) as error:
            findings.append(self._bad_list(error))

    def _frame(self) -> list[Finding]:
        """What is wrong with the list, with names that do not belong, and with the metadata."""
        listed: dict[str, int] = {}
        metadata: ShardFile | None = None
        try:
            for file in self._listed():
                listed[file.name] = file.size
                metadata = file if file.name == METADATA else metadata
        except (ShardListError, OSError, StoreError) as error:
            return [self._bad_list(error)]
        try:
            return [*self._unlisted(listed), *self._metadata(metadata, listed)]
        except (OSError, StoreError) as error:
            return [unreadable(f"{self._place.address}/{self._directory}", error)]

    def _bad_list(self, error: Exception) -> Finding:
        where = self._where(self._list)
        if isinstance(error, ShardListError | FileNotFoundError):
            said = "it is not there" if isinstance(error, OSError) else str(error)
            rule = f"the list of checkpoint shards is not what was written: {said}."
            return found(CheckpointCode.SHARD_LIST, where, rule, RESTORE)
        return unreadable(where, error)

    def _unlisted(self, listed: Container[str]) -> Iterator[Finding]:
        for name in self._place.names(self._directory):
            known = name in listed or name in OURS or is_left_behind(name)
            if not known and engine_reads(name):
                rule = "the engine would read this file, and the record does not name it."
                fix = "Find out who put it there; remove it, or resume from another checkpoint."
                yield found(CheckpointCode.UNLISTED, self._where(name), rule, fix, name)

    def _metadata(self, metadata: ShardFile | None, listed: Mapping[str, int]) -> list[Finding]:
        """Compare the engine's list of tensors, and only then look what it points at."""
        where = self._where(METADATA)
        has_list = format_of(self._record.setup).has_tensor_list
        for name, size in listed.items():
            # Without a list every file is an archive; beside shards, whatever torch would load.
            if not has_list or is_archive(name):
                self._items[name].append(StoredItem(name, name, 0, size))
        if not has_list:
            return []
        if metadata is None:
            rule = "the record names no list of tensors."
            return [found(CheckpointCode.METADATA, where, rule, RESTORE)]
        wrong = self._compare(metadata)
        if wrong:
            return wrong
        try:
            with self._place.open(f"{self._directory}/{METADATA}") as stream:
                items = stored_items(stream.read())
        except UnsafeFileError as error:
            return [self._unsafe(METADATA, error)]
        except (OSError, StoreError) as error:
            return [unreadable(where, error)]
        for item in items:
            if item.file not in listed or item.file in (METADATA, FORMAT_FILE):
                rule = f"the list of tensors points at {item.file!r}, which the record lacks."
                return [found(CheckpointCode.METADATA, where, rule, RESTORE, item.file)]
            self._items[item.file].append(item)
        return []

    def _examined(
        self, files: Iterable[tuple[ShardFile, bool]]
    ) -> Iterator[tuple[ShardFile, bool, list[Finding]]]:
        """Every file with what is wrong with it, in order, some of them at a time."""
        waiting = iter(files)
        with ThreadPoolExecutor(self._threads) as pool:
            ahead: list[tuple[ShardFile, bool, Future[list[Finding]]]] = []
            for file, whole in islice(waiting, self._threads * AHEAD):
                ahead.append((file, whole, pool.submit(self._looked_at, file, whole)))
            while ahead:
                file, whole, answer = ahead.pop(0)
                yield file, whole, answer.result()
                for file, whole in islice(waiting, 1):
                    ahead.append((file, whole, pool.submit(self._looked_at, file, whole)))

    def _looked_at(self, file: ShardFile, whole: bool) -> list[Finding]:
        """Compare the file where it is to be read whole, and scan its pickles in any case."""
        wrong = self._compare(file) if whole else []
        items = self._items.get(file.name)
        if wrong or not items:
            return wrong
        try:
            with self._place.open(f"{self._directory}/{file.name}") as stream:
                scan_items(stream, items)
        except UnsafeFileError as error:
            return [self._unsafe(file.name, error)]
        except (OSError, StoreError) as error:
            return [unreadable(self._where(file.name), error)]
        return []

    def _compare(self, file: ShardFile) -> list[Finding]:
        """What is wrong with the bytes of a file."""
        where = self._where(file.name)
        try:
            size = self._place.size(f"{self._directory}/{file.name}")
            if size is None:
                rule = "the file is not there."
                return [found(CheckpointCode.MISSING, where, rule, RESTORE)]
            if size != file.size:
                rule = f"the file has {size:,} bytes, and {file.size:,} were written."
                return [found(CheckpointCode.SIZE, where, rule, RESTORE, str(size))]
            hasher = hashlib.sha256()
            with self._place.open(f"{self._directory}/{file.name}") as stream:
                while block := stream.read(BLOCK):
                    hasher.update(block)
        except (OSError, StoreError) as error:
            return [unreadable(where, error)]
        if hasher.hexdigest() != file.sha256:
            rule = "the content is not what was written: its SHA-256 is another."
            value = hasher.hexdigest()
            return [found(CheckpointCode.DIGEST, where, rule, RESTORE, value)]
        if file.name == FORMAT_FILE:
            return self._format(where)
        return []

    def _format(self, where: str) -> list[Finding]:
        """The engine must take the checkpoint for a distributed one, not for an older kind."""
        try:
            known = parse_json(self._place.store.read(f"{self._directory}/{FORMAT_FILE}"))
            good = known["sharded_backend"] == "torch_dist"
        except (ValueError, KeyError, TypeError):
            good = False
        except (OSError, StoreError) as error:
            return [unreadable(where, error)]
        rule = "the file does not say that the checkpoint is of the format torch_dist."
        return [] if good else [found(CheckpointCode.METADATA, where, rule, RESTORE)]

    def _unsafe(self, name: str, error: UnsafeFileError) -> Finding:
        rule = f"a pickle holds what no checkpoint needs: {error}. Nothing of it was run."
        fix = "Do not load it. Find out who wrote the file; resume from another checkpoint."
        return found(CheckpointCode.PICKLE, self._where(name), rule, fix)


def verify(
    place: Location, directory: str, *, threads: int = 0, tell: Tell | None = None
) -> list[Finding]:
    """What is wrong with a checkpoint, everything of it read."""
    record, findings = read_record(place, directory)
    if record is None:
        return findings
    return Verifier(place, directory, record, threads).verify(tell=tell)


def unreadable(where: str, error: Exception) -> Finding:
    """The finding about a file or directory that the disk or the store does not give."""
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    fix = "Check the disk or the store, and try again."
    rule = f"it cannot be read: {said.rstrip('.')}."
    return found(CheckpointCode.UNREADABLE, where, rule, fix)
