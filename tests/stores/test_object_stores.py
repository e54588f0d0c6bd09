# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""S3, Azure Blob and Google Storage as stores, against servers that run here."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import uuid4

import pytest

from seatrial.storage.object_store import ObjectStore
from seatrial.storage.store import StoredFile, StoreError, UnsafePathError
from tests.stores.conftest import QUICK, Running, noise
from tests.stores.faults import Fault

pytestmark = [
    pytest.mark.stores,
    # aiohttp's advice to whoever has other work on the same loop; fsspec's loop has a thread.
    pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning"),
]


@pytest.fixture
def store(server: Running, request: pytest.FixtureRequest) -> ObjectStore:
    """An empty place in the store; `data` is what the proxy knows the objects by."""
    name = uuid4().hex
    return ObjectStore(f"{server.root}/{name}/data", QUICK)


def test_what_is_written_is_read(store: ObjectStore) -> None:
    with store.open_writer("a/b.bin") as stream:
        stream.write(b"one")
        stream.write(memoryview(b"two"))
        assert stream.tell() == 6
    assert store.read("a/b.bin") == b"onetwo"
    with store.open_reader("a/b.bin", 2) as stream:
        assert stream.read() == b"etwo"
    assert list(store.list()) == [StoredFile("a/b.bin", 6)]


def test_an_empty_file(store: ObjectStore) -> None:
    store.open_writer("empty").close()
    assert store.read("empty") == b""
    with store.open_reader("empty") as stream:
        assert stream.read() == b""


def test_a_file_of_several_parts(store: ObjectStore) -> None:
    data = noise(1, 19_000_003)
    with store.open_writer("large") as stream:
        for start in range(0, len(data), 3_000_001):
            stream.write(data[start : start + 3_000_001])
    with store.open_reader("large") as stream:
        assert stream.read() == data
    with store.open_reader("large", 8_388_607) as stream:
        assert stream.read(5) == data[8_388_607:8_388_612]


def test_a_file_that_is_not_there(store: ObjectStore) -> None:
    with pytest.raises(FileNotFoundError):
        store.read("nothing")
    with pytest.raises(FileNotFoundError):
        store.open_reader("nothing")
    store.delete(["nothing"])
    assert list(store.list()) == []


def test_lists_in_order_and_below_a_path(store: ObjectStore) -> None:
    for path in ("b/2", "b/10", "a", "bc/1", "b/c/d"):
        store.open_writer(path).close()
    assert [file.path for file in store.list()] == ["a", "b/10", "b/2", "b/c/d", "bc/1"]
    assert [file.path for file in store.list("b")] == ["b/10", "b/2", "b/c/d"]
    store.delete(["b/2", "b/10", "b/c/d"])
    assert [file.path for file in store.list()] == ["a", "bc/1"]


def test_a_second_create_changes_nothing(store: ObjectStore) -> None:
    assert store.create("record.json", b"first")
    assert not store.create("record.json", b"second")
    assert not store.create("record.json", b"first")
    assert store.read("record.json") == b"first"


def test_create_sends_the_condition(server: Running, store: ObjectStore) -> None:
    server.faults.plan(when=server.is_upload)
    store.create("record.json", b"first")
    ((_, path, headers),) = server.faults.seen
    if server.scheme == "gs":
        assert "ifGenerationMatch=0" in path
    else:
        assert headers["if-none-match"] == "*"


def test_of_creators_at_once_one_wins(store: ObjectStore) -> None:
    creators = 4
    barrier = Barrier(creators)

    def create(number: int) -> bool:
        barrier.wait()
        return store.create("record.json", b"%d" % number)

    with ThreadPoolExecutor(creators) as pool:
        won = list(pool.map(create, range(creators)))
    assert won.count(True) == 1
    assert store.read("record.json") == b"%d" % won.index(True)


def test_a_create_whose_answer_was_lost_has_won(server: Running, store: ObjectStore) -> None:
    server.faults.plan(Fault(lose_answer=True), when=server.is_upload)
    assert store.create("record.json", b"first")
    assert len(server.faults.seen) > 1
    assert store.read("record.json") == b"first"


@pytest.mark.parametrize("size", [100, 9_000_000, 20_000_000])
def test_an_aborted_writer_leaves_nothing(server: Running, store: ObjectStore, size: int) -> None:
    def interrupted() -> None:
        with store.open_writer("half") as stream:
            stream.write(bytes(size))
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    forgotten = store.open_writer("forgotten")
    forgotten.write(bytes(size))
    del forgotten
    assert list(store.list()) == []
    if server.scheme == "s3":
        assert _uploads(store) == []


def _uploads(store: ObjectStore) -> list[tuple[str, str]]:
    bucket, _, prefix = store._place.root.partition("/")
    return list(store._uploads(bucket, prefix))


# Only S3 keeps unfinished uploads until somebody ends them.
@pytest.mark.parametrize("server", ["s3"], indirect=True)
def test_sweep_ends_uploads_of_killed_writers(server: Running, store: ObjectStore) -> None:
    bucket, _, prefix = store._place.root.partition("/")
    for name in ("work/x", "work/00ffee00-1-1-0.bin", "other"):
        store._s3("create_multipart_upload", Bucket=bucket, Key=f"{prefix}/{name}")
    store.sweep("work")
    assert len(_uploads(store)) == 3
    store.sweep("work", everything=True)
    assert [key for key, _ in _uploads(store)] == [f"{prefix}/other"]


def test_passing_faults_do_not_show(server: Running, store: ObjectStore) -> None:
    data = noise(2, 9_000_000)
    with store.open_writer("file") as stream:
        stream.write(data)
    faults = [Fault(429, retry_after=1), Fault(500), Fault(503), Fault(cut_after=100_000)]
    for fault in faults:
        server.faults.plan(fault, when=server.is_data)
        with store.open_reader("file") as stream:
            assert stream.read() == data
        assert len(server.faults.seen) >= 3


def test_uploads_survive_passing_faults(server: Running, store: ObjectStore) -> None:
    data = noise(3, 9_000_000)
    faults = [Fault(429, retry_after=1), Fault(500), Fault(503), Fault(lose_answer=True)]
    for number, fault in enumerate(faults):
        server.faults.plan(fault, when=server.is_upload)
        with store.open_writer(f"file{number}") as stream:
            stream.write(data)
        server.faults.clear()
        assert store.read(f"file{number}") == data


@pytest.mark.parametrize("fault", [Fault(429), Fault(500), Fault(cut_after=10)])
def test_retries_are_bounded(server: Running, store: ObjectStore, fault: Fault) -> None:
    with store.open_writer("file") as stream:
        stream.write(bytes(1000))
    server.faults.plan(fault, when=server.is_data, forever=True)
    with (
        pytest.raises(StoreError, match=r"all 3 attempts .* failed.*Rerun the same command later"),
        store.open_reader("file") as stream,
    ):
        stream.read()
    assert 3 <= len(server.faults.seen) <= 100


def test_a_failed_upload_leaves_nothing(server: Running, store: ObjectStore) -> None:
    server.faults.plan(Fault(500), when=server.is_upload, forever=True)
    with pytest.raises(StoreError), store.open_writer("file") as stream:
        stream.write(bytes(100))
    server.faults.clear()
    assert list(store.list()) == []


def test_a_bucket_that_is_not_there(server: Running) -> None:
    store = ObjectStore(f"{server.scheme}://absent/data", QUICK)
    with pytest.raises((StoreError, FileNotFoundError)):
        store.create("record", b"")


def test_no_path_leaves_the_root(store: ObjectStore) -> None:
    for path in ("../x", "/x", "a/../../x", "", "a//b", "a\0b", "."):
        with pytest.raises(UnsafePathError):
            store.read(path)
        with pytest.raises(UnsafePathError):
            store.open_writer(path)
        with pytest.raises(UnsafePathError):
            store.create(path, b"")
        with pytest.raises(UnsafePathError):
            store.delete([path])
