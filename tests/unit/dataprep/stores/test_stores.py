# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from seatrial.errors import UsageError
from seatrial.storage.access import store_at
from seatrial.storage.directory import LocalStore
from seatrial.storage.object_reader import RANGE, RangeReader
from seatrial.storage.retries import CutShortError, RetryPolicy, described, passes, status_of
from seatrial.storage.store import StoredFile, StoreError, UnsafePathError
from seatrial.storage.uploads import BLOCK, _block_size
from tests.unit.cli.forking import obey_modes

UNSAFE = ["/etc/passwd", "../x", "a/../../x", "a/..", "", ".", "./a", "a//b", "a/", "a\0b"]


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "out")


def _hidden(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.name.startswith(".")]


def test_what_is_written_is_read(store: LocalStore) -> None:
    with store.open_writer("a/b/c") as stream:
        assert stream.write(b"one") == 3
        stream.write(memoryview(b"two"))
        assert stream.tell() == 6
        assert list(store.list()) == []
    assert store.read("a/b/c") == b"onetwo"
    with store.open_reader("a/b/c", 4) as stream:
        assert stream.read() == b"wo"
    assert list(store.list()) == [StoredFile("a/b/c", 6)]


def test_a_writer_replaces(store: LocalStore) -> None:
    for data in (b"longer", b"new"):
        with store.open_writer("a") as stream:
            stream.write(data)
    assert store.read("a") == b"new"


def test_an_aborted_writer_leaves_what_was_there(store: LocalStore, tmp_path: Path) -> None:
    store.create("a", b"old")

    def interrupted() -> None:
        with store.open_writer("a") as stream:
            stream.write(b"half")
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    forgotten = store.open_writer("b")
    forgotten.write(b"half")
    del forgotten
    assert store.read("a") == b"old"
    assert [file.path for file in store.list()] == ["a"]
    assert _hidden(tmp_path) == []


def test_a_closed_writer_takes_nothing_more(store: LocalStore) -> None:
    stream = store.open_writer("a")
    stream.close()
    stream.close()
    with pytest.raises(ValueError, match="closed"):
        stream.write(b"late")
    assert store.read("a") == b""


def test_a_second_create_changes_nothing(store: LocalStore, tmp_path: Path) -> None:
    assert store.create("records/0.json", b"first")
    assert not store.create("records/0.json", b"second")
    assert store.read("records/0.json") == b"first"
    assert _hidden(tmp_path) == []


def test_of_creators_at_once_one_wins(store: LocalStore, tmp_path: Path) -> None:
    creators = 8
    barrier = Barrier(creators)

    def create(number: int) -> bool:
        barrier.wait()
        return store.create("record", b"%d" % number)

    for _ in range(20):
        with ThreadPoolExecutor(creators) as pool:
            won = list(pool.map(create, range(creators)))
        assert won.count(True) == 1
        assert store.read("record") == b"%d" % won.index(True)
        store.delete(["record"])
    assert _hidden(tmp_path) == []


def test_lists_in_order_and_below_a_path(store: LocalStore) -> None:
    for path in ("b/2", "b/10", "a", "bc/1", "b/c/d"):
        store.create(path, b"")
    assert [file.path for file in store.list()] == ["a", "b/10", "b/2", "b/c/d", "bc/1"]
    assert [file.path for file in store.list("b")] == ["b/10", "b/2", "b/c/d"]
    assert list(store.list("nothing")) == []


def test_deleting_removes_empty_directories_and_no_others(
    store: LocalStore, tmp_path: Path
) -> None:
    for path in ("work/x/parts/1", "work/x/parts/2", "work/y", "work/x/records/1"):
        store.create(path, b"")
    store.delete(["work/x/parts/1", "work/x/parts/2", "work/x/gone/1", "work/x/records/1"])
    assert sorted(path.name for path in (tmp_path / "out").rglob("*")) == ["work", "y"]
    store.delete(["work/y"])
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("path", UNSAFE)
def test_no_path_leaves_the_root(store: LocalStore, tmp_path: Path, path: str) -> None:
    for action in (
        lambda: store.read(path),
        lambda: store.open_reader(path),
        lambda: store.open_writer(path),
        lambda: store.create(path, b""),
        lambda: store.delete([path]),
        lambda: list(store.list(path or "..")),
    ):
        with pytest.raises(UnsafePathError, match="not a path below"):
            action()
    assert not (tmp_path / "x").exists()


def test_no_link_leads_out_of_the_root(store: LocalStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    store.create("inside/a", b"")
    (tmp_path / "out/link").symlink_to(outside)
    (tmp_path / "out/file").symlink_to(outside / "kept")
    for action in (
        lambda: store.create("link/new", b""),
        lambda: store.open_writer("link/new"),
        lambda: store.open_writer("link/deeper/new"),
        lambda: store.delete(["link/kept"]),
    ):
        with pytest.raises(UnsafePathError, match="symbolic link"):
            action()
    with store.open_writer("file") as stream:
        stream.write(b"new")
    assert [path.name for path in outside.iterdir()] == ["kept"]
    assert (outside / "kept").read_text() == "kept"
    assert [file.path for file in store.list()] == ["file", "inside/a"]


def test_the_root_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    assert LocalStore(tmp_path / "link").create("a/b", b"x")
    assert (tmp_path / "disk/a/b").read_bytes() == b"x"


def test_a_relative_root_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = store_at("out")
    monkeypatch.chdir("/")
    store.create("a", b"x")
    assert (tmp_path / "out/a").read_bytes() == b"x"


def test_sweep_removes_what_the_dead_left(store: LocalStore, tmp_path: Path) -> None:
    script = (
        "import os, sys; from seatrial.storage.directory import LocalStore; "
        "stream = LocalStore(sys.argv[1]).open_writer('work/a'); "
        "stream.write(b'half'); stream.flush(); os._exit(9)"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path / "out")], check=False)
    assert ended.returncode == 9
    mine = store.open_writer("work/b")
    assert len(_hidden(tmp_path)) == 2
    assert list(store.list()) == []
    store.sweep("work")
    assert len(_hidden(tmp_path)) == 1
    store.sweep("other", everything=True)
    mine.close()
    assert [file.path for file in store.list()] == ["work/b"]
    elsewhere = tmp_path / "out/work/.seatrial-ffffffff-1-1-0~c"
    elsewhere.touch()
    store.sweep("work")
    assert elsewhere.exists()
    store.sweep(everything=True)
    assert elsewhere.exists(), "directories below the root may be anybody's"
    store.sweep("work", everything=True)
    assert not elsewhere.exists()


def test_a_directory_that_cannot_be_written(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir(mode=0o500)
    # Rights are a thread's own: those of root end with this pool.
    with ThreadPoolExecutor(1, initializer=obey_modes) as pool:
        written = pool.submit(store.create, "a", b"")
        with pytest.raises(StoreError, match="Permission denied"):
            written.result()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk(store: LocalStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened = Path.open

    def full(path: Path, *args: object, **options: object) -> object:
        if path.name.startswith(".seatrial-"):
            path.touch()
            return opened(Path("/dev/full"), "wb")
        return opened(path, *args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", full)
    stream = store.open_writer("a")
    stream.write(b"x")
    with pytest.raises(StoreError, match=r"No space left.*Free some space"):
        stream.close()
    assert _hidden(tmp_path) == []
    assert list(store.list()) == []


def test_a_file_where_a_directory_should_be(store: LocalStore) -> None:
    store.create("a", b"")
    with pytest.raises(StoreError, match="Part of this path is a file"):
        store.create("a/b", b"")


@pytest.mark.parametrize("address", ["hf://datasets/a/b", "http://x/y", "s3://", "gs:///"])
def test_addresses_that_cannot_be_written(address: str) -> None:
    with pytest.raises(UsageError, match="cannot write to this address"):
        store_at(address)


def test_parts_of_an_upload_grow_with_it() -> None:
    written = parts = 0
    while written < 5 * 10**12:
        size = _block_size(written)
        assert size % (256 << 10) == 0
        written += size
        parts += 1
    assert parts <= 10_000
    assert _block_size(0) == _block_size(8 * 10**9) == BLOCK


class Answer(Exception):  # noqa: N818
    def __init__(self, status: int, headers: dict[str, str] | None = None) -> None:
        metadata = {"HTTPStatusCode": status, "HTTPHeaders": headers or {}}
        self.response = {"ResponseMetadata": metadata}


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waits: list[float] = []
    monkeypatch.setattr("seatrial.storage.retries.time.sleep", waits.append)
    return waits


def _failing(times: int, error: Exception) -> tuple[list[int], object]:
    calls: list[int] = []

    def action() -> str:
        calls.append(1)
        if len(calls) <= times:
            raise error
        return "done"

    return calls, action


def test_patience_ends_with_success(waits: list[float]) -> None:
    calls, action = _failing(3, Answer(503))
    assert RetryPolicy(tries=4, first_wait=1).call("x", action) == "done"  # type: ignore[arg-type]
    assert len(calls) == 4
    assert [0.5 * 2**n <= wait <= 2**n for n, wait in enumerate(waits)] == [True] * 3


def test_patience_is_bounded(waits: list[float]) -> None:
    calls, action = _failing(99, Answer(500))
    with pytest.raises(StoreError, match=r"s3://b/x: all 5 attempts .* failed.*status 500"):
        RetryPolicy(tries=5).call("s3://b/x", action)  # type: ignore[arg-type]
    assert len(calls) == 5
    assert len(waits) == 4


def test_an_answer_may_ask_for_more_patience(waits: list[float]) -> None:
    _, action = _failing(1, Answer(429, {"retry-after": "17"}))
    RetryPolicy(first_wait=0.1).call("x", action)  # type: ignore[arg-type]
    assert waits == [17]
    _, action = _failing(1, Answer(429, {"retry-after": "86400"}))
    RetryPolicy(first_wait=0.1).call("x", action)  # type: ignore[arg-type]
    assert waits[1] == 300


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 412, 416])
def test_refusals_are_not_tried_again(waits: list[float], status: int) -> None:
    calls, action = _failing(1, Answer(status))
    with pytest.raises(Answer):
        RetryPolicy().call("x", action)  # type: ignore[arg-type]
    assert len(calls) == 1
    assert status_of(Answer(status)) == status


def test_which_errors_pass() -> None:
    assert passes(CutShortError())
    assert passes(ConnectionResetError())
    assert passes(TimeoutError())
    assert not passes(ValueError())
    assert not passes(FileNotFoundError())
    assert not passes(PermissionError())
    wrapped = RuntimeError("failed")
    wrapped.__cause__ = Answer(429)
    assert passes(wrapped)


def test_no_signature_in_a_message() -> None:
    error = RuntimeError("503 for url 'https://cdn.example/x?X-Amz-Signature=abc&y=1' now")
    assert described(error) == "503 for url 'https://cdn.example/x?...' now"


def test_ranges_are_fetched_once_and_in_order() -> None:
    data = bytes(range(251)) * (3 * RANGE // 251)
    asked: list[tuple[int, int]] = []
    verified: list[bool] = []

    def fetch(begin: int, end: int) -> bytes:
        asked.append((begin, end))
        return data[begin:end]

    reader = RangeReader(fetch, len(data), 5, lambda: verified.append(True))
    with reader:
        assert reader.read(3) == data[5:8]
        assert reader.readall() == data[8:]
    assert [begin for begin, _ in asked] == [5, 5 + RANGE, 5 + 2 * RANGE]
    assert verified == [True]


def test_a_reader_that_seeks() -> None:
    data = bytes(range(100))
    verified: list[bool] = []
    reader = RangeReader(lambda b, e: data[b:e], 100, verify=lambda: verified.append(True))
    assert reader.seek(-4, os.SEEK_END) == 96
    assert reader.read(10) == data[96:]
    assert reader.read(10) == b""
    assert reader.seek(10) == 10
    assert reader.seek(5, os.SEEK_CUR) == 15
    assert reader.read(2) == data[15:17]
    with pytest.raises(ValueError, match="negative"):
        reader.seek(-1)
    reader.close()
    reader.close()
    assert verified == [True, True]
