# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Verify a checkpoint: read every file and compare it with the record.

A pickle is read only after its file matches the record. Problems are returned as findings; a
checkpoint is good if none of its findings has severity error.
"""

import hashlib
import os
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from seatrial.checkpoints.by_engine import (
    UnsupportedCheckpointError,
    engine_of,
    format_file_problem,
    format_of,
    naming_of,
)
from seatrial.checkpoints.naming import (
    METADATA,
    OURS,
    RECORD,
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
from seatrial.storage.store import StoreError

BLOCK = 1 << 20
"""Bytes per read."""
AHEAD = 4
"""Files queued per thread."""
RESTORE = "Resume from a different checkpoint, or restore the file from a backup."

Tell = Callable[[int, int], None]
"""Progress callback: the number of files and bytes done."""


@dataclass(frozen=True, slots=True)
class Share:
    """The subset of files that one of several readers reads."""

    part: int = 0
    """Index of this reader, counted from 0."""
    parts: int = 1
    """The number of readers."""

    def has(self, index: int) -> bool:
        """True if this reader reads the file with this index."""
        return index % self.parts == self.part


WHOLE = Share()


def read_record(place: Location, directory: str) -> tuple[Record | None, list[Finding]]:
    """Return the record of a checkpoint, or None and the reason."""
    where = f"{place.address}/{directory}/{RECORD}"
    try:
        with place.open(f"{directory}/{RECORD}") as stream:
            data = stream.read(LARGEST_RECORD + 1)
    except (FileNotFoundError, NotADirectoryError):
        rule = "the save was interrupted: there is no record."
        fix = (
            "No action needed: a resume skips this checkpoint. Its files are deleted when the step "
            "is saved again, or by seatrial checkpoints prune once a newer checkpoint exists."
        )
        return None, [found(CheckpointCode.TORN, where, rule, fix, severity=Severity.WARNING)]
    except (OSError, StoreError) as error:
        return None, [unreadable(where, error)]
    try:
        record = record_from_bytes(data)
    except RecordError as error:
        rule = f"the record is damaged: {error}."
        return None, [found(CheckpointCode.RECORD, where, rule, RESTORE)]
    try:
        engine_of(record.setup)
    except UnsupportedCheckpointError as error:
        return None, [found(CheckpointCode.RECORD, where, error.rule, error.fix)]
    if record.step != step_of(directory):
        rule = f"the record is for step {record.step}, not for the step in the directory name."
        return None, [found(CheckpointCode.OTHER_STEP, where, rule, RESTORE, str(record.step))]
    return record, []


class Verifier:
    """Compares the files of a checkpoint with its record."""

    def __init__(self, place: Location, directory: str, record: Record, threads: int = 0) -> None:
        self._place = place
        self._directory = directory
        self._record = record
        self._naming = naming_of(record.setup)
        self._list = shard_list_name(record.incarnation)
        self._threads = threads or min(8, os.cpu_count() or 1)
        self._items: dict[str, list[StoredItem]] = defaultdict(list)
        self.wrong = 0

    def verify(
        self, share: Share = WHOLE, skip: int = 0, tell: Tell | None = None
    ) -> list[Finding]:
        """Return the problems with the files in a share.

        The first `skip` files are not compared again, but their pickles are still scanned: anyone
        who can write a file can also write the note that states how many files were compared.
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
        """Read the list again. Errors are appended to the findings."""
        try:
            yield from self._listed()
        except (ShardListError, OSError, StoreError) as error:
            findings.append(self._bad_list(error))

    def _frame(self) -> list[Finding]:
        """Check the shard list, unlisted files and the metadata."""
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
            said = "it does not exist" if isinstance(error, OSError) else str(error)
            rule = f"the shard list is damaged: {said}."
            return found(CheckpointCode.SHARD_LIST, where, rule, RESTORE)
        return unreadable(where, error)

    def _unlisted(self, listed: Container[str]) -> Iterator[Finding]:
        for name in self._place.names(self._directory):
            known = name in listed or name in OURS or is_left_behind(name)
            if not known and self._naming.reads(name):
                rule = "the engine would read this file, but it is not in the record."
                fix = (
                    "Find out where the file came from. Then delete it, or resume from a different "
                    "checkpoint."
                )
                yield found(CheckpointCode.UNLISTED, self._where(name), rule, fix, name)

    def _metadata(self, metadata: ShardFile | None, listed: Mapping[str, int]) -> list[Finding]:
        """Compare the engine's tensor metadata with the record, and only then read it."""
        where = self._where(METADATA)
        has_list = format_of(self._record.setup).has_tensor_list
        for name, size in listed.items():
            # Without metadata, every file is an archive; with it, only those that torch would load.
            if not has_list or is_archive(name):
                self._items[name].append(StoredItem(name, name, 0, size))
        if not has_list:
            return []
        if metadata is None:
            rule = "the record does not list this file, which maps tensors to shards."
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
            if item.file not in listed or item.file in (METADATA, self._naming.format_file):
                rule = f"the metadata references {item.file!r}, which is not in the record."
                return [found(CheckpointCode.METADATA, where, rule, RESTORE, item.file)]
            self._items[item.file].append(item)
        return []

    def _examined(
        self, files: Iterable[tuple[ShardFile, bool]]
    ) -> Iterator[tuple[ShardFile, bool, list[Finding]]]:
        """Yield every file with its problems, in order. Files are read in parallel."""
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
        """Compare the file if `whole`, and always scan its pickles."""
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
        """Compare the bytes of a file with the record."""
        where = self._where(file.name)
        try:
            size = self._place.size(f"{self._directory}/{file.name}")
            if size is None:
                rule = "the file does not exist."
                return [found(CheckpointCode.MISSING, where, rule, RESTORE)]
            if size != file.size:
                rule = f"the file has {size:,} bytes, but {file.size:,} were written."
                return [found(CheckpointCode.SIZE, where, rule, RESTORE, str(size))]
            hasher = hashlib.sha256()
            with self._place.open(f"{self._directory}/{file.name}") as stream:
                while block := stream.read(BLOCK):
                    hasher.update(block)
        except (OSError, StoreError) as error:
            return [unreadable(where, error)]
        if hasher.hexdigest() != file.sha256:
            rule = "the content has changed since the save: its SHA-256 differs."
            value = hasher.hexdigest()
            return [found(CheckpointCode.DIGEST, where, rule, RESTORE, value)]
        if file.name == self._naming.format_file:
            return self._format(where)
        return []

    def _format(self, where: str) -> list[Finding]:
        """Check that the engine detects the format in which it saved the checkpoint."""
        try:
            content = self._place.store.read(f"{self._directory}/{self._naming.format_file}")
        except (OSError, StoreError) as error:
            return [unreadable(where, error)]
        rule = format_file_problem(self._record.setup, content)
        return [found(CheckpointCode.METADATA, where, rule, RESTORE)] if rule else []

    def _unsafe(self, name: str, error: UnsafeFileError) -> Finding:
        rule = f"the file is not safe to load: {error}. No code from it was executed."
        fix = (
            "Do not load the file. Find out what wrote it, and resume from a different checkpoint."
        )
        return found(CheckpointCode.PICKLE, self._where(name), rule, fix)


def verify(
    place: Location, directory: str, *, threads: int = 0, tell: Tell | None = None
) -> list[Finding]:
    """Read the whole checkpoint and return its problems."""
    record, findings = read_record(place, directory)
    if record is None:
        return findings
    return Verifier(place, directory, record, threads).verify(tell=tell)


def unreadable(where: str, error: Exception) -> Finding:
    """Return the finding for a file or directory that cannot be read."""
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    fix = "Check the disk or the object store, and try again."
    rule = f"the file or directory cannot be read: {said.rstrip('.')}."
    return found(CheckpointCode.UNREADABLE, where, rule, fix)
