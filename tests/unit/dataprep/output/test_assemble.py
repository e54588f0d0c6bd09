# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import hashlib
import io
import itertools
import resource
import threading
import time
from collections.abc import Buffer, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from seatrial.dataprep.output import copying
from seatrial.dataprep.output.assemble import (
    DamagedPartsError,
    assemble,
    damaged_parts,
    file_stems,
    forget_assembled,
    planned_files,
    slug,
)
from seatrial.dataprep.output.dataset import DatasetRecord, summarize
from seatrial.dataprep.output.index_file import map_index
from seatrial.dataprep.tasks.records import PartRecord
from seatrial.dataprep.tasks.task_list import TaskList, Tokenizer
from seatrial.dataprep.verification.tokens import check_tokens
from seatrial.errors import FindingsError
from seatrial.storage.directory import LocalStore
from seatrial.storage.store import Store, StoredFile, StoreError
from tests.unit.dataprep.made_parts import END, task_list, tokenizer, write_part


class MemoryStore:
    """An object store without a network: no file descriptors, no renames."""

    address = "memory://data"

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def read(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path]

    def open_reader(self, path: str, start: int = 0) -> BinaryIO:
        stream = io.BytesIO(self.read(path))
        stream.seek(start)
        return stream

    def open_writer(self, path: str) -> BinaryIO:
        files = self.files

        class Writer(io.BytesIO):
            def __exit__(self, kind: object, *rest: object) -> None:
                if kind is None:
                    files[path] = self.getvalue()
                self.close()

        return Writer()

    def create(self, path: str, data: bytes) -> bool:
        return self.files.setdefault(path, data) is data

    def list(self, below: str = "", *, deep: bool = True) -> Iterator[StoredFile]:
        prefix = f"{below}/" if below else ""
        return (
            StoredFile(p, len(d))
            for p, d in sorted(self.files.items())
            if p.startswith(prefix) and (deep or "/" not in p.removeprefix(prefix))
        )

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.files.pop(path, None)

    def sync(self) -> None:
        pass

    def sweep(self, below: str = "", everything: bool = False) -> None:
        pass


@pytest.fixture(params=["local", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return LocalStore(tmp_path / "out") if request.param == "local" else MemoryStore()


PARTS: Sequence[tuple[str, dict[str, list[list[int]]]]] = (
    ("web", {"": [[1, 2], [], [3]]}),
    ("code", {"py": [[4]], "C++": [[5, 6]]}),
    ("web", {"": [[], [7, 8, 9]]}),
    ("code", {"C++": [[10]], "py": [[], []]}),
    ("web", {"": [[11]]}),
)


def made(store: Store, chosen: Tokenizer | None = None) -> tuple[TaskList, list[PartRecord]]:
    tasks = task_list([source for source, _ in PARTS], chosen)
    return tasks, [write_part(store, tasks, n, domains) for n, (_, domains) in enumerate(PARTS)]


def output(store: Store) -> dict[str, str]:
    """The digest of every file in the root."""
    return {
        file.path: hashlib.sha256(store.read(file.path)).hexdigest()
        for file in store.list()
        if "/" not in file.path
    }


def documents(store: Store, name: str, tmp_path: Path, width: str = "<u2") -> list[list[int]]:
    index = tmp_path / "read.idx"
    index.write_bytes(store.read(f"{name}.idx"))
    data, mapped = store.read(f"{name}.bin"), map_index(index)
    spans = [mapped.span(d) for d in range(mapped.header.documents)]
    return [np.frombuffer(data[a:b], width).tolist() for a, b in spans]


def test_parts_are_put_together_in_order(store: Store, tmp_path: Path) -> None:
    tasks, records = made(store)
    files = assemble(tasks, records, store)
    assert [(f.name, f.source, f.domain) for f in files] == [
        ("web-00000", "web", ""),
        ("code-c-cc24a6aa-00000", "code", "C++"),
        ("code-py-00000", "code", "py"),
    ]
    assert documents(store, "web-00000", tmp_path) == [
        [1, 2, END],
        [],
        [3, END],
        [],
        [7, 8, 9, END],
        [11, END],
    ]
    assert documents(store, "code-c-cc24a6aa-00000", tmp_path) == [[5, 6, END], [10, END]]
    assert documents(store, "code-py-00000", tmp_path) == [[4, END], [], []]
    web = files[0]
    assert (web.documents, web.empty, web.tokens) == (6, 2, 11)
    assert [(s.task, s.documents, s.tokens) for s in web.segments] == [
        (0, 3, 5),
        (2, 2, 4),
        (4, 1, 2),
    ]
    assert output(store)["web-00000.idx"] == web.index_digest.removeprefix("sha256:")


def test_a_large_vocabulary_has_wide_tokens(store: Store, tmp_path: Path) -> None:
    tasks, records = made(store, tokenizer(65_500, 65_499))
    assemble(tasks, records, store)
    assert documents(store, "code-py-00000", tmp_path, "<i4") == [[4, 65_499], [], []]


def test_files_are_as_large_as_asked_and_none_is_a_small_rest(store: Store) -> None:
    tasks, records = made(store)
    sizes = {}
    for least in (1, 8, 12, 100):
        files = [f for f in planned_files(tasks, records, least) if f.source == "web"]
        sizes[least] = [[task for task, _ in f.parts] for f in files]
        if sizes[least] != [[0, 2, 4]]:
            assert all(sum(p.size for p in f.pieces()) >= least for f in files)
    assert sizes == {1: [[0], [2], [4]], 8: [[0], [2, 4]], 12: [[0, 2, 4]], 100: [[0, 2, 4]]}


def test_a_file_has_no_more_documents_than_the_engine_counts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks, records = made(store)
    monkeypatch.setattr("seatrial.dataprep.output.assemble.LARGEST_COUNT", 3)
    files = [f for f in planned_files(tasks, records) if f.source == "web"]
    assert [[task for task, _ in f.parts] for f in files] == [[0], [2, 4]]


def test_too_many_files_for_a_blend_are_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks, records = made(store)
    monkeypatch.setattr("seatrial.dataprep.output.assemble.MOST_FILES", 2)
    with pytest.raises(FindingsError, match="domain_field with fewer values"):
        planned_files(tasks, records)


def test_the_order_of_the_records_and_the_kind_of_store_change_no_byte(tmp_path: Path) -> None:
    outputs = []
    for number, kind in enumerate((LocalStore, LocalStore, MemoryStore)):
        store = kind(tmp_path / str(number)) if kind is LocalStore else MemoryStore()
        tasks, records = made(store)
        records = records[number:] + records[:number]
        files = assemble(tasks, records, store)
        outputs.append((output(store), files))
    assert outputs[0] == outputs[1] == outputs[2]


def test_without_the_kernels_copy_the_bytes_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = []
    for number in range(3):
        store = LocalStore(tmp_path / str(number))
        tasks, records = made(store)
        if number == 1:
            monkeypatch.setattr(copying, "_copied", lambda *_: 0)
        if number == 2:
            monkeypatch.delattr("os.copy_file_range")
        assemble(tasks, records, store)
        outputs.append(output(store))
    assert outputs[0] == outputs[1] == outputs[2]


def test_a_missing_record_is_reported(store: Store) -> None:
    tasks, records = made(store)
    with pytest.raises(FindingsError, match="1 of 5 tasks have no record; the first is 2"):
        assemble(tasks, [r for r in records if r.task != 2], store)
    others = task_list(["web"] * 5)
    with pytest.raises(FindingsError, match="5 of 5 tasks have no record"):
        assemble(others, records, store)


@pytest.mark.parametrize("kind", ["tokens", "lengths"])
@pytest.mark.parametrize("change", ["flip", "cut", "grow", "gone"])
def test_a_damaged_part_is_reported_with_its_task(store: Store, kind: str, change: str) -> None:
    tasks, records = made(store)
    for number in (2, 4):
        path = getattr(records[number].files[0], f"{kind}_file")
        data = store.read(path)
        store.delete([path])
        if change != "gone":
            changed = {
                "flip": bytes([data[0] ^ 1]) + data[1:],
                "cut": data[:-1],
                "grow": data + b"\0",
            }
            with store.open_writer(path) as out:
                out.write(changed[change])
    error = found_damage(tasks, records, store)
    assert error.tasks == (2, 4)
    assert all("prepare again" in f.fix and f"{kind}" in f.where.file for f in error.findings)


def found_damage(tasks: TaskList, records: Sequence[PartRecord], store: Store) -> DamagedPartsError:
    """What assembling finds, or, of tokens that the kernel has copied, reading the parts."""
    try:
        files = assemble(tasks, records, store)
    except DamagedPartsError as error:
        assert not any(path.startswith("web") for path in output(store))
        return error
    assert isinstance(store, LocalStore)
    damaged = {file.name for file in files if check_tokens(store, file, tasks.settings)}
    assert damaged == {"web-00000"}
    found = damaged_parts(tasks, records, store, damaged)
    assert found is not None
    assert damaged_parts(tasks, records, store, {file.name for file in files} - damaged) is None
    return found


class KilledError(BaseException):
    """What a kill looks like to the code that it hits."""


def test_killed_at_any_operation_and_begun_again_the_bytes_are_the_same(tmp_path: Path) -> None:
    class Fragile(LocalStore):
        left = 10**9

        def _step(self) -> None:
            Fragile.left -= 1
            if Fragile.left < 0:
                raise KilledError

        def open_reader(self, path: str, start: int = 0) -> BinaryIO:
            self._step()
            return super().open_reader(path, start)

        def open_writer(self, path: str) -> BinaryIO:
            self._step()
            return super().open_writer(path)

        def create(self, path: str, data: bytes) -> bool:
            self._step()
            return super().create(path, data)

    whole = LocalStore(tmp_path / "whole")
    tasks, records = made(whole)
    files = assemble(tasks, records, whole)
    for moment in itertools.count():
        store = Fragile(tmp_path / str(moment))
        Fragile.left = 10**9
        made(store)
        Fragile.left = moment
        try:
            assemble(tasks, records, store)
            break
        except KilledError:
            pass
        Fragile.left = 10**9
        assert assemble(tasks, records, store) == files
        assert output(store) == output(whole)
    assert moment > 20


class SlowStream(io.BytesIO):
    """Gives a byte at a time, once somebody else has failed."""

    def __init__(self, data: bytes, failed: threading.Event) -> None:
        super().__init__(data)
        self.failed = failed
        self.given = 0

    def readinto(self, buffer: Buffer, /) -> int:
        assert self.failed.wait(60)
        time.sleep(0.001)
        self.given += 1
        return super().readinto(memoryview(buffer)[:1])


def test_an_end_takes_effect_between_two_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, failed = threading.Event(), threading.Event()
    streams: list[SlowStream] = []

    class Store(MemoryStore):
        """The first file cannot be read; the second takes its time."""

        def open_reader(self, path: str, start: int = 0) -> BinaryIO:
            if path == records[0].files[0].tokens_file:
                assert opened.wait(60)
                failed.set()
                raise KilledError
            if path == records[1].files[0].tokens_file:
                streams.append(SlowStream(self.read(path), failed))
                opened.set()
                return streams[0]
            return super().open_reader(path, start)

    store = Store()
    tasks = task_list(["a", "b"])
    documents = [{"": [[1]]}, {"": [[2] * 5000]}]
    records = [write_part(store, tasks, n, each) for n, each in enumerate(documents)]
    monkeypatch.setattr("seatrial.dataprep.output.assemble.THREADS", 2)
    with pytest.raises(KilledError):
        assemble(tasks, records, store)
    assert 0 < streams[0].given < 9000
    assert output(store) == {}


def test_nothing_is_begun_before_the_records_have_proved_good(store: Store) -> None:
    tasks, records = made(store)
    begun: list[str] = []
    with pytest.raises(FindingsError):
        assemble(tasks, records[1:], store, begin=lambda: begun.append("too early"))
    assemble(tasks, records, store, begin=lambda: begun.append(str(output(store))))
    assert begun == ["{}"]


@pytest.mark.parametrize("kernel", [True, False])
def test_a_disk_that_is_full_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: bool
) -> None:
    store = LocalStore(tmp_path)
    tasks = task_list(["a"])
    records = [write_part(store, tasks, 0, {"": [[1] * 100_000]})]
    if not kernel:
        monkeypatch.setattr(copying, "_copied", lambda *_: 0)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # No file may grow beyond this, and the kernel says so with an error like that of a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises(StoreError, match=r"a-00000\.bin: File too large\. Set data\.location"):
            assemble(tasks, records, store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert output(store) == {}
    assert [file.name for file in assemble(tasks, records, store)] == ["a-00000"]


def test_a_full_temporary_directory_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, records = made(store)
    with Path("/dev/full").open("wb", buffering=0) as full:
        monkeypatch.setattr(
            "seatrial.dataprep.output.assemble.TemporaryFile", lambda **_: nullcontext(full)
        )
        with pytest.raises(StoreError, match=r"No space left on device; .*lengths.*set TMPDIR"):
            assemble(tasks, records, store)


def test_that_files_were_begun_stays_known_when_they_are_forgotten(store: Store) -> None:
    tasks, records = made(store)
    assemble(tasks, records, store)
    forget_assembled(store, tasks)
    left = [file.path for file in store.list(f"work/{tasks.name}/assembled")]
    assert len(left) == 3
    assert all(path.endswith(".begun.json") for path in left)


def test_what_is_finished_is_not_written_again(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    tasks, records = made(store)
    first = assemble(tasks, records, store)
    times = {p: p.stat().st_mtime_ns for p in tmp_path.glob("*.bin")}
    (tmp_path / "web-00000.bin").write_bytes(b"cut")
    assert assemble(tasks, records, store) == first
    again = {p: p.stat().st_mtime_ns for p in tmp_path.glob("*.bin")}
    changed = {p.name for p in times if times[p] != again[p]}
    assert changed == {"web-00000.bin"}


def test_what_was_found_damaged_is_written_again(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    tasks, records = made(store)
    assemble(tasks, records, store)
    whole = output(store)
    data = bytearray((tmp_path / "web-00000.bin").read_bytes())
    data[0] ^= 1
    (tmp_path / "web-00000.bin").write_bytes(data)
    assemble(tasks, records, store)
    assert output(store) != whole
    forget_assembled(store, tasks)
    assemble(tasks, records, store)
    assert output(store) == whole


def test_progress_adds_up_to_all_tokens(store: Store) -> None:
    tasks, records = made(store)
    for _ in range(2):
        told: list[int] = []
        files = assemble(tasks, records, store, told.append)
        assert sum(told) == sum(f.tokens_size for f in files)


def test_the_record_reads_as_it_was_written(store: Store) -> None:
    tasks, records = made(store)
    files = assemble(tasks, records, store)
    record = DatasetRecord(tasks.digest, tasks.settings, files, summarize(tasks, records))
    assert DatasetRecord.from_json(record.to_json()) == record
    assert record.sources[0].counts.documents == 6
    assert record.sources[0].lengths == (2,)
    assert (record.documents, record.tokens) == (11, 18)
    for wrong in (b"", b"{}", b"[]", record.to_json().replace(b'"tokens":11', b'"tokens":12')):
        with pytest.raises(FindingsError, match="not the record of a data set"):
            DatasetRecord.from_json(wrong)


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        ("../../etc/passwd", "etc-passwd"),
        ("/", ""),
        ("..", ""),
        ("a\0b\nc", "a-b-c"),
        ("RedPajamaC4", "redpajamac4"),
        ("x" * 300, "x" * 60),
        ("日本語", ""),
    ],
)
def test_a_domain_never_makes_a_path(domain: str, expected: str) -> None:
    assert slug(domain) == expected
    (stem,) = file_stems([("web", domain)])
    assert "/" not in stem
    assert stem.isascii()
    assert stem.startswith("web")
    assert len(stem) < 100


def test_names_never_meet() -> None:
    keys = [
        ("a", "b-c"),
        ("a-b", "c"),
        ("a", "B-C"),
        ("a", ""),
        ("a", "/"),
        ("a", "日"),
        ("a", "本"),
    ]
    crafted = file_stems(keys)[3:]
    keys += [("a", stem.removeprefix("a-")) for stem in crafted]
    stems = file_stems(keys)
    assert len(set(stems)) == len(keys)
    assert file_stems([("slim", "RedPajamaC4"), ("slim", "")]) == ["slim-redpajamac4", "slim"]
