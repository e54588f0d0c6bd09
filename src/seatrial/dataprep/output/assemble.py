# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Assemble the parts: a few large files per source and domain, in the order of the tasks.

The order, the names and every byte depend only on the task list and the records of the parts. Files
are written next to the parts and renamed when they are complete. A small record of each file lets
an interrupted assembly resume.
"""

import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from tempfile import TemporaryFile, gettempdir
from typing import IO, BinaryIO

import numpy as np

from seatrial.codes.datasets import DatasetCode
from seatrial.dataprep.output.copying import (
    CopiedPiece,
    DamagedPartError,
    Go,
    copy_piece,
    read_checked,
)
from seatrial.dataprep.output.dataset import (
    DataFile,
    Segment,
    data_file_from,
    data_file_to_json,
)
from seatrial.dataprep.output.index_file import BLOCK, LARGEST_COUNT, Lengths, write_index
from seatrial.dataprep.output.report import VerificationReport
from seatrial.dataprep.tasks.records import RECORD_FILE, PartFile, PartRecord, record_file
from seatrial.dataprep.tasks.task_list import TaskList
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where
from seatrial.hashing import canonical_json
from seatrial.storage.digests import digest_text, new_hasher
from seatrial.storage.state_files import parse_json
from seatrial.storage.store import Store, StoreError

LONGEST_SLUG = 60
"""Most characters of a domain in a file name; file systems limit the whole name to 255 bytes."""


def slug(domain: str) -> str:
    """Reduce a domain to lower-case letters, digits, `.`, `_` and `-`; may be empty."""
    return re.sub(r"[^a-z0-9._-]+", "-", domain.lower())[:LONGEST_SLUG].strip(".-_")


def file_stems(keys: Sequence[tuple[str, str]]) -> list[str]:
    """Return a unique file name prefix for each source and domain.

    A domain that is a valid name, apart from capital letters, gives `SOURCE-DOMAIN`. A domain that
    changes further, or would collide with another, gets a short hash of its original name.
    """
    plain = [_plain(source, domain) for source, domain in keys]
    number = Counter(plain)
    clean = [
        number[stem] == 1 and slug(domain) == domain.lower()
        for (_, domain), stem in zip(keys, plain, strict=True)
    ]
    taken = {stem for stem, is_clean in zip(plain, clean, strict=True) if is_clean}
    stems = []
    for (source, domain), stem, is_clean in zip(keys, plain, clean, strict=True):
        found, salt = stem, domain
        # Loops more than once only if a domain imitates another one with its hash.
        while not is_clean and (found == stem or found in taken):
            salt = sha256(f"{source}\0{salt}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
            found = f"{stem}-{salt}"
        taken.add(found)
        stems.append(found)
    return stems


def _plain(source: str, domain: str) -> str:
    return "-".join(filter(None, (source, slug(domain))))


def check_conserved(
    tasks: TaskList, records: Iterable[PartRecord], files: Iterable[DataFile]
) -> list[Finding]:
    """Check that every document and token of every part is in the files once, in order."""
    given = {}
    for record in records:
        for part in record.files if record.list_digest == tasks.digest else ():
            key = (record.task, part.domain)
            given[key] = (part.documents, part.tokens, part.tokens_digest)
    source_of = {task.number: task.source for task in tasks.tasks}
    report = VerificationReport(RECORD_FILE)
    last: dict[tuple[str, str], int] = {}
    for file in files:
        for segment in file.segments:
            found = (segment.documents, segment.tokens, segment.digest)
            if given.pop((segment.task, file.domain), None) != found:
                rule = (
                    f"{file.name} contains data that is not in the record of task {segment.task}."
                )
                report.add(DatasetCode.COUNTS, rule, segment.task)
            group = (file.source, file.domain)
            if source_of.get(segment.task) != file.source or last.get(group, -1) >= segment.task:
                rule = f"{file.name}: task {segment.task} is out of order."
                report.add(DatasetCode.COUNTS, rule, segment.task)
            last[group] = segment.task
    for task, domain in given:
        rule = f"the output of task {task} for the domain {domain!r} is not in any file."
        report.add(DatasetCode.COUNTS, rule, task)
    return report.findings()


FILE_BYTES = 10 * 2**30
"""Smallest token file if there are enough tokens: Megatron's guide recommends 10 GB."""
MOST_FILES = 32_766
"""Most files of a data set: the engine stores the data set number in a signed 16-bit integer."""
THREADS = min(8, os.cpu_count() or 1)
"""Files to assemble in parallel; copying and hashing release the GIL."""

_BEGUN = ".begun.json"

Progress = Callable[[int], None]
"""Receives the token bytes that have been assembled since the last call."""


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """An output file and the parts that it consists of."""

    name: str
    """Name without the suffix."""
    source: str
    domain: str
    token_bytes: int
    parts: tuple[tuple[int, PartFile], ...]
    """Task numbers with the files of their parts."""

    def pieces(self) -> Iterator[CopiedPiece]:
        """Yield the token files of its parts, in order."""
        for task, part in self.parts:
            size = part.tokens * self.token_bytes
            yield CopiedPiece(task, part.tokens_file, size, part.tokens_digest)

    def length_pieces(self) -> Iterator[CopiedPiece]:
        """Yield the length files of its parts, in order."""
        for task, part in self.parts:
            yield CopiedPiece(task, part.lengths_file, 4 * part.documents, part.lengths_digest)

    def described(self, index_digest: str) -> DataFile:
        """Return the record of the file after its index is written."""
        files = [file for _, file in self.parts]
        return DataFile(
            name=self.name,
            source=self.source,
            domain=self.domain,
            documents=sum(file.documents for file in files),
            empty=sum(file.empty for file in files),
            tokens=sum(file.tokens for file in files),
            token_bytes=self.token_bytes,
            index_digest=index_digest,
            segments=tuple(
                Segment(task, file.documents, file.tokens, file.tokens_digest)
                for task, file in self.parts
            ),
        )


class DamagedPartsError(FindingsError):
    """Files of parts differ from their records; `tasks` must run again."""

    def __init__(self, findings: Sequence[Finding], tasks: Iterable[int]) -> None:
        """Store the findings and the task numbers."""
        super().__init__(findings)
        self.tasks = tuple(sorted(set(tasks)))


def planned_files(
    tasks: TaskList, records: Iterable[PartRecord], file_bytes: int = FILE_BYTES
) -> tuple[PlannedFile, ...]:
    """Plan the files of a data set and their parts, from the records alone."""
    by_task = _records_of_all(tasks, records)
    groups: dict[tuple[str, str], list[tuple[int, PartFile]]] = {}
    for task in tasks.tasks:
        for file in by_task[task.number].files:
            groups.setdefault((task.source, file.domain), []).append((task.number, file))
    order = {source.name: place for place, source in enumerate(tasks.settings.sources)}
    keys = sorted(groups, key=lambda key: (order[key[0]], key[1]))
    width = tasks.settings.tokenizer.token_bytes
    found = []
    for key, stem in zip(keys, file_stems(keys), strict=True):
        for number, parts in enumerate(_runs(groups[key], width, file_bytes)):
            found.append(PlannedFile(f"{stem}-{number:05d}", *key, width, tuple(parts)))
    if len(found) > MOST_FILES:
        rule = f"the output has {len(found)} files; the engine can blend at most {MOST_FILES}."
        fix = "Choose a domain_field with fewer values, or none."
        where = Where(field="data.sources")
        raise FindingsError(
            [Finding(DatasetCode.LIMIT, Severity.ERROR, where, rule, str(len(found)), fix)]
        )
    return tuple(found)


def _records_of_all(tasks: TaskList, records: Iterable[PartRecord]) -> dict[int, PartRecord]:
    """Return the records by task; raise an error if one is missing or of a different list."""
    by_task = {r.task: r for r in records if r.list_digest == tasks.digest}
    missing = [task.number for task in tasks.tasks if task.number not in by_task]
    if missing:
        rule = (
            f"{len(missing)} of {len(tasks.tasks)} tasks have no record; the first is {missing[0]}."
        )
        where = Where(file=record_file(tasks.name, missing[0]))
        fix = "Run seatrial data prepare again: finished tasks are kept."
        raise FindingsError(
            [Finding(DatasetCode.RECORDS, Severity.ERROR, where, rule, str(missing[0]), fix)]
        )
    return by_task


def _runs(
    parts: Sequence[tuple[int, PartFile]], token_bytes: int, file_bytes: int
) -> Iterator[list[tuple[int, PartFile]]]:
    """Group parts into runs of at least that many bytes; the last run takes the remainder."""
    left = sum(file.tokens for _, file in parts) * token_bytes
    run: list[tuple[int, PartFile]] = []
    size = documents = 0
    for part in parts:
        file = part[1]
        full = size >= file_bytes and left >= file_bytes
        if run and (full or documents + file.documents > LARGEST_COUNT):
            yield run
            run, size, documents = [], 0, 0
        run.append(part)
        size += file.tokens * token_bytes
        left -= file.tokens * token_bytes
        documents += file.documents
    if run:
        yield run


def assemble(
    tasks: TaskList,
    records: Iterable[PartRecord],
    store: Store,
    progress: Progress | None = None,
    file_bytes: int = FILE_BYTES,
    begin: Callable[[], None] = lambda: None,
) -> tuple[DataFile, ...]:
    """Write all files of a data set; files that an earlier call finished are kept.

    Calls `begin` after the records have been checked and before the first file is written. An
    interrupt takes effect between two blocks and leaves no partial file.

    Verify the files afterwards: tokens that the kernel copies are not read here. If that finds
    damage, `damaged_parts` shows whether the parts were already damaged.

    Raises:
        DamagedPartsError: A file of a part is missing or differs from its record. Delete the
            records of its tasks to run them again.
    """
    records = list(records)
    planned = planned_files(tasks, records, file_bytes)
    begin()
    # Sizes of existing files, to compare with their records.
    sizes = {file.path: file.size for file in store.list(deep=False)}
    work = _Work(store, tasks.name, sizes, progress or (lambda _: None))
    with ThreadPoolExecutor(max(1, min(THREADS, len(planned)))) as pool:
        try:
            results = list(pool.map(work.assembled, planned))
        except BaseException:
            # Leaving the pool waits for its threads, and a file may have many gigabytes.
            work.stop.set()
            raise
    damaged = [error for result in results if isinstance(result, list) for error in result]
    if damaged:
        raise _damaged(damaged)
    files = tuple(result for result in results if isinstance(result, DataFile))
    lost = check_conserved(tasks, records, files)
    if lost:
        raise FindingsError(lost)
    return files


def damaged_parts(
    tasks: TaskList,
    records: Iterable[PartRecord],
    store: Store,
    names: Collection[str],
    file_bytes: int = FILE_BYTES,
) -> DamagedPartsError | None:
    """Return the damage in the parts of the named files; None if there is none."""
    planned = planned_files(tasks, records, file_bytes)
    found = [e for file in planned if file.name in names for e in _damage(store, file)]
    return _damaged(found) if found else None


def _damaged(errors: Sequence[DamagedPartError]) -> DamagedPartsError:
    return DamagedPartsError(
        [_finding(error) for error in errors], [error.piece.task for error in errors]
    )


def _damage(store: Store, file: PlannedFile) -> list[DamagedPartError]:
    """Return all damage in the parts of a file; reads all of them."""
    found = []
    for piece in (*file.length_pieces(), *file.pieces()):
        try:
            for _ in read_checked(store, piece):
                pass
        except DamagedPartError as error:
            found.append(error)
    return found


def forget_assembled(store: Store, tasks: TaskList) -> None:
    """Make the next call write all files again: they are damaged, or belong to a different list.

    The markers of started files stay, so that whoever abandons the list can delete the files.
    """
    below = f"work/{tasks.name}/assembled"
    store.delete([file.path for file in store.list(below) if not file.path.endswith(_BEGUN)])


def _finding(error: DamagedPartError) -> Finding:
    return Finding(
        DatasetCode.PART,
        Severity.ERROR,
        Where(file=error.piece.path),
        f"{error.rule} It belongs to task {error.piece.task}.",
        error.value,
        "Run seatrial data prepare again: only that task runs again.",
    )


class _StoppedError(Exception):
    """A thread stops because a different thread failed or the user interrupted."""


@dataclass(frozen=True, slots=True)
class _Work:
    """State that the threads share."""

    store: Store
    name: str
    sizes: dict[str, int]
    """Sizes of the files that were in the root at the start."""
    progress: Progress
    lock: threading.Lock = field(default_factory=threading.Lock)
    stop: threading.Event = field(default_factory=threading.Event)
    """Set to stop the threads."""

    def assembled(self, file: PlannedFile) -> DataFile | list[DamagedPartError]:
        """Assemble one file unless it is complete; return the damage in its parts, if any."""
        finished = self._finished(file)
        if finished is not None:
            self._tell(finished.tokens_size)
            return finished
        # An older record describes a pair that is missing or different. Create the marker first, so
        # that whoever abandons the list knows which files to delete.
        self.store.delete([self._record(file)])
        self.store.create(self._record(file, _BEGUN), canonical_json({"name": file.name}).encode())
        try:
            described = self._written(file)
        except DamagedPartError as error:
            return _damage(self.store, file) or [error]
        self.store.create(self._record(file), data_file_to_json(described))
        return described

    def _written(self, file: PlannedFile) -> DataFile:
        """Write the pair. Lengths come first: they are small and reveal damage early."""
        name = file.described("")
        # Unbuffered: closing would otherwise retry a failed write.
        with TemporaryFile(buffering=0) as lengths:
            for piece in file.length_pieces():
                for block in read_checked(self.store, piece):
                    self.go()
                    _keep(lengths, block)
            with self.store.open_writer(name.tokens_file) as out:
                for piece in file.pieces():
                    copy_piece(self.store, piece, out, self.go)
                    self._tell(piece.size)
            with self.store.open_writer(name.index_file) as out:
                sink = _Hashing(out, self.go)
                write_index(sink, name.header, lambda: _read_lengths(lengths), name.index_file)
        return file.described(digest_text(sink.hasher))

    def _finished(self, file: PlannedFile) -> DataFile | None:
        """Return the record of an earlier call, if its pair still exists."""
        try:
            known = data_file_from(parse_json(self.store.read(self._record(file))))
        except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
            return None
        there = (self.sizes.get(known.tokens_file), self.sizes.get(known.index_file))
        whole = there == (known.tokens_size, known.header.size)
        return known if whole and known == file.described(known.index_digest) else None

    def _record(self, file: PlannedFile, ending: str = ".json") -> str:
        """Return the path of the small record of a file."""
        return f"work/{self.name}/assembled/{file.name}{ending}"

    def go(self) -> None:
        """Raise an exception if the work should stop."""
        if self.stop.is_set():
            raise _StoppedError

    def _tell(self, size: int) -> None:
        with self.lock:
            self.progress(size)


class _Hashing:
    """Writes and hashes data."""

    def __init__(self, out: BinaryIO, go: Go) -> None:
        self._out = out
        self._go = go
        self.hasher = new_hasher()

    def write(self, data: memoryview, /) -> None:
        self._go()
        self.hasher.update(data)
        self._out.write(data)


def _keep(file: IO[bytes], block: memoryview) -> None:
    """Write all of a block to a temporary file."""
    try:
        while block:
            block = block[file.write(block) :]
    except OSError as error:
        raise StoreError(
            f"{gettempdir()}: {error.strerror}; Seatrial keeps document lengths there during "
            "assembly, 4 bytes per document. Free some space or set TMPDIR to a different "
            "directory, then rerun the command: finished work is kept."
        ) from error


def _read_lengths(file: IO[bytes]) -> Iterator[Lengths]:
    """Yield the lengths in a file from its start, in blocks."""
    file.seek(0)
    while data := file.read(4 * BLOCK):
        yield np.frombuffer(data, "<i4")
