# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Putting parts together: for each source and domain a few large files, in the order of the tasks.

The order, the names and every byte follow from the task list and the parts' records alone. Files
are written beside the parts and take their names when they are whole; a small record of each then
spares the work when assembling is interrupted and begins again.
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
    RECORD_FILE,
    DataFile,
    Segment,
    data_file_from,
    data_file_to_json,
)
from seatrial.dataprep.output.index_file import BLOCK, LARGEST_COUNT, Lengths, write_index
from seatrial.dataprep.output.report import VerificationReport
from seatrial.dataprep.tasks.records import PartFile, PartRecord, record_file
from seatrial.dataprep.tasks.task_list import TaskList
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where
from seatrial.hashing import canonical_json
from seatrial.storage.digests import digest_text, new_hasher
from seatrial.storage.state_files import parse_json
from seatrial.storage.store import Store, StoreError

LONGEST_SLUG = 60
"""Characters of a domain that are kept; file systems end at 255 bytes for the whole name."""


def slug(domain: str) -> str:
    """The domain in lower-case letters, digits, `.`, `_` and `-`; never a path, maybe empty."""
    return re.sub(r"[^a-z0-9._-]+", "-", domain.lower())[:LONGEST_SLUG].strip(".-_")


def file_stems(keys: Sequence[tuple[str, str]]) -> list[str]:
    """For each source and domain what the names of its files begin with, each different.

    A domain that is a name but for capital letters gives `SOURCE-DOMAIN`. One that had to be
    altered further, or would meet another's, gets a short hash of what it was.
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
        # More than once only where a domain was made to look like another with its hash.
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
    """Whether every document and token of every part is in the files, in its place, once."""
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
                rule = f"{file.name} has something of task {segment.task} that its record has not."
                report.add(DatasetCode.COUNTS, rule, segment.task)
            group = (file.source, file.domain)
            if source_of.get(segment.task) != file.source or last.get(group, -1) >= segment.task:
                rule = f"{file.name}: task {segment.task} is not in its place."
                report.add(DatasetCode.COUNTS, rule, segment.task)
            last[group] = segment.task
    for task, domain in given:
        rule = f"what task {task} gave for the domain {domain!r} is in no file."
        report.add(DatasetCode.COUNTS, rule, task)
    return report.findings()


FILE_BYTES = 10 * 2**30
"""Least size of a file of tokens, where there is as much: Megatron's guide asks for 10 GB."""
MOST_FILES = 32_766
"""Most files of a data set: the engine numbers the data sets of a blend in 16 bits with a sign."""
THREADS = min(8, os.cpu_count() or 1)
"""Files that are put together at the same time; copying and hashing leave Python's lock alone."""

_BEGUN = ".begun.json"

Progress = Callable[[int], None]
"""Told the bytes of tokens that have been put in place since it was last told."""


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that is to be, and the parts that it is made of."""

    name: str
    """Its name without the ending."""
    source: str
    domain: str
    token_bytes: int
    parts: tuple[tuple[int, PartFile], ...]
    """The numbers of the tasks, with what each gives."""

    def pieces(self) -> Iterator[CopiedPiece]:
        """The files of tokens of its parts, in order."""
        for task, part in self.parts:
            size = part.tokens * self.token_bytes
            yield CopiedPiece(task, part.tokens_file, size, part.tokens_digest)

    def length_pieces(self) -> Iterator[CopiedPiece]:
        """The files of lengths of its parts, in order."""
        for task, part in self.parts:
            yield CopiedPiece(task, part.lengths_file, 4 * part.documents, part.lengths_digest)

    def described(self, index_digest: str) -> DataFile:
        """The file as it is recorded, once its index is written."""
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
    """Files of parts are not what their records say; `tasks` are to be done again."""

    def __init__(self, findings: Sequence[Finding], tasks: Iterable[int]) -> None:
        """Keep the numbers of the tasks beside the findings."""
        super().__init__(findings)
        self.tasks = tuple(sorted(set(tasks)))


def planned_files(
    tasks: TaskList, records: Iterable[PartRecord], file_bytes: int = FILE_BYTES
) -> tuple[PlannedFile, ...]:
    """The files of a data set with their parts, from the records alone."""
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
        rule = f"{len(found)} files would come of it; the engine can blend {MOST_FILES}."
        fix = "Choose a domain_field with fewer values, or none."
        where = Where(field="data.sources")
        raise FindingsError(
            [Finding(DatasetCode.LIMIT, Severity.ERROR, where, rule, str(len(found)), fix)]
        )
    return tuple(found)


def _records_of_all(tasks: TaskList, records: Iterable[PartRecord]) -> dict[int, PartRecord]:
    """The records by task; an error when one is missing or of another list."""
    by_task = {r.task: r for r in records if r.list_digest == tasks.digest}
    missing = [task.number for task in tasks.tasks if task.number not in by_task]
    if missing:
        rule = (
            f"{len(missing)} of {len(tasks.tasks)} tasks have no record, the first is {missing[0]}."
        )
        where = Where(file=record_file(tasks.name, missing[0]))
        fix = "Run seatrial data prepare again: what is done is not done again."
        raise FindingsError(
            [Finding(DatasetCode.RECORDS, Severity.ERROR, where, rule, str(missing[0]), fix)]
        )
    return by_task


def _runs(
    parts: Sequence[tuple[int, PartFile]], token_bytes: int, file_bytes: int
) -> Iterator[list[tuple[int, PartFile]]]:
    """Parts in runs of at least that many bytes, of which the last takes what is left."""
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
    """Write all files of a data set; what an earlier call has finished is left as it is.

    `begin` is called when the records have proved to be of use, before the first file is written.
    An interrupt takes effect between two blocks, and leaves no file half written.

    The files have to be verified: tokens that the kernel has copied were not read. Where verifying
    finds damage, `damaged_parts` says whether it was in the parts already.

    Raises:
        DamagedPartsError: A file of a part is absent or not what its record says. Remove the
            records of its tasks, and they are done again.
    """
    records = list(records)
    planned = planned_files(tasks, records, file_bytes)
    begin()
    # A file whose record was read is there with the size that the listing has.
    sizes = {file.path: file.size for file in store.list(deep=False)}
    work = _Work(store, tasks.name, sizes, progress or (lambda _: None))
    with ThreadPoolExecutor(max(1, min(THREADS, len(planned)))) as pool:
        try:
            results = list(pool.map(work.assembled, planned))
        except BaseException:
            # Leaving the pool waits for its threads, and a file may be of many gigabytes.
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
    """What is wrong with the parts of the files of these names; None when it is nothing."""
    planned = planned_files(tasks, records, file_bytes)
    found = [e for file in planned if file.name in names for e in _damage(store, file)]
    return _damaged(found) if found else None


def _damaged(errors: Sequence[DamagedPartError]) -> DamagedPartsError:
    return DamagedPartsError(
        [_finding(error) for error in errors], [error.piece.task for error in errors]
    )


def _damage(store: Store, file: PlannedFile) -> list[DamagedPartError]:
    """Everything that is wrong with the parts of a file, found by reading all of them."""
    found = []
    for piece in (*file.length_pieces(), *file.pieces()):
        try:
            for _ in read_checked(store, piece):
                pass
        except DamagedPartError as error:
            found.append(error)
    return found


def forget_assembled(store: Store, tasks: TaskList) -> None:
    """Let the next call write all files again: they are damaged, or of another list by now.

    That they were begun stays written down, for whoever gives the list up.
    """
    below = f"work/{tasks.name}/assembled"
    store.delete([file.path for file in store.list(below) if not file.path.endswith(_BEGUN)])


def _finding(error: DamagedPartError) -> Finding:
    return Finding(
        DatasetCode.PART,
        Severity.ERROR,
        Where(file=error.piece.path),
        f"{error.rule} It is of task {error.piece.task}.",
        error.value,
        "Run seatrial data prepare again: that task is done again, and no other.",
    )


class _StoppedError(Exception):
    """A thread gives its file up, because another failed or somebody wants to stop."""


@dataclass(frozen=True, slots=True)
class _Work:
    """What the threads share."""

    store: Store
    name: str
    sizes: dict[str, int]
    """Files that were in the root at the beginning, with their sizes."""
    progress: Progress
    lock: threading.Lock = field(default_factory=threading.Lock)
    stop: threading.Event = field(default_factory=threading.Event)
    """Set when the work is to be given up."""

    def assembled(self, file: PlannedFile) -> DataFile | list[DamagedPartError]:
        """Put one file together, unless it is there; or all that is wrong with its parts."""
        finished = self._finished(file)
        if finished is not None:
            self._tell(finished.tokens_size)
            return finished
        # An older record speaks of a pair that is gone or was another. That the pair is begun is
        # written down first, so that whoever gives the whole list up knows what to remove.
        self.store.delete([self._record(file)])
        self.store.create(self._record(file, _BEGUN), canonical_json({"name": file.name}).encode())
        try:
            described = self._written(file)
        except DamagedPartError as error:
            return _damage(self.store, file) or [error]
        self.store.create(self._record(file), data_file_to_json(described))
        return described

    def _written(self, file: PlannedFile) -> DataFile:
        """Write the pair. The lengths come first: they are small, and damage shows early."""
        name = file.described("")
        # Without a buffer, which closing would try to write once more where that has failed.
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
        """The file as an earlier call recorded it, if its pair is still there."""
        try:
            known = data_file_from(parse_json(self.store.read(self._record(file))))
        except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
            return None
        there = (self.sizes.get(known.tokens_file), self.sizes.get(known.index_file))
        whole = there == (known.tokens_size, known.header.size)
        return known if whole and known == file.described(known.index_digest) else None

    def _record(self, file: PlannedFile, ending: str = ".json") -> str:
        """Where the small record of a file lies."""
        return f"work/{self.name}/assembled/{file.name}{ending}"

    def go(self) -> None:
        """Give up when that is wanted."""
        if self.stop.is_set():
            raise _StoppedError

    def _tell(self, size: int) -> None:
        with self.lock:
            self.progress(size)


class _Hashing:
    """Writes and hashes at once."""

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
            f"{gettempdir()}: {error.strerror}; the lengths of documents are kept there while they "
            "are put together, 4 bytes for each. Make room there or set TMPDIR to another "
            "directory, and start the same command again: what is finished is kept."
        ) from error


def _read_lengths(file: IO[bytes]) -> Iterator[Lengths]:
    """The lengths in a file, from its start, in blocks."""
    file.seek(0)
    while data := file.read(4 * BLOCK):
        yield np.frombuffer(data, "<i4")
