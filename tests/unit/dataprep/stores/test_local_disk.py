# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What a directory promises on any disk: names that last, records created once, words that help."""

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from seatrial.dataprep.prepare import prepare
from seatrial.sdk.plan import plan
from seatrial.storage.directory import LocalStore
from seatrial.storage.store import StoredFile, StoreError
from tests.unit.dataprep.little_corpus import InlineDriver, write_corpus


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "out")


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What is done to the disk from now on, with the place below the directory of the test."""
    done: list[tuple[str, str]] = []

    def place(path: object) -> str:
        return os.path.relpath(str(path), tmp_path)

    def watched(name: str, described: Callable[..., str]) -> None:
        inner = getattr(os, name)

        def call(*args: object) -> object:
            done.append((name, described(*args)))
            return inner(*args)

        monkeypatch.setattr(os, name, call)

    watched("fsync", lambda number: place(os.readlink(f"/proc/self/fd/{number}")))
    watched("replace", lambda _, to: place(to))
    watched("link", lambda _, to: place(to))
    watched("unlink", place)
    return done


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_names_are_on_the_disk_before_the_record_and_the_record_before_the_work_goes(
    tmp_path: Path, events: list[tuple[str, str]]
) -> None:
    spec = write_corpus(tmp_path, sources=1, files=1)
    prepare(plan(spec), InlineDriver())
    at = events.index(("link", "out/dataset.json"))
    last = max(n for n, (_, path) in enumerate(events) if path.endswith((".bin", ".idx")))
    for directory in ("out", "."):
        assert ("fsync", directory) in events[last:at]
    removed = next(
        n
        for n, (name, path) in enumerate(events)
        if name == "unlink" and path.endswith("/records/000000.json")
    )
    assert ("fsync", "out") in events[at:removed]


def test_a_file_system_that_cannot_sync_directories_is_used_without(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(code: int) -> Callable[[int], None]:
        def fsync(_: int) -> None:
            raise OSError(code, os.strerror(code))

        return fsync

    store.create("a", b"x")
    monkeypatch.setattr(os, "fsync", failing(errno.EINVAL))
    store.sync()
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))
    with pytest.raises(StoreError, match="The disk or its connection failed"):
        store.sync()


def without_links(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Have a file system that has no hard links."""

    def link(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", link)


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOTSUP])
def test_without_hard_links_of_creators_at_once_one_wins(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    without_links(monkeypatch, code)
    creators = 8
    barrier = Barrier(creators)

    def create(number: int) -> bool:
        barrier.wait()
        return store.create("records/0", b"%d" % number)

    for _ in range(20):
        with ThreadPoolExecutor(creators) as pool:
            won = list(pool.map(create, range(creators)))
        assert won.count(True) == 1
        assert store.read("records/0") == b"%d" % won.index(True)
        assert list(store.list()) == [StoredFile("records/0", 1)]
        store.delete(["records/0"])


def test_without_hard_links_a_kill_leaves_nothing_that_looks_whole(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_links(monkeypatch, errno.EPERM)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            store.create("record", b"{}")
    assert store.read("record") == b""
    assert not store.create("record", b"{}")


def test_other_errors_of_a_link_are_said(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_links(monkeypatch, errno.EIO)
    with pytest.raises(StoreError, match="The disk or its connection failed"):
        store.create("record", b"{}")


def test_only_the_directory_itself_is_listed_when_asked(store: LocalStore) -> None:
    for path in ("a", "b/c", "b/d/e"):
        store.create(path, b"x")
    assert [file.path for file in store.list(deep=False)] == ["a"]
    assert [file.path for file in store.list("b", deep=False)] == ["b/c"]


def test_a_directory_that_cannot_be_read(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create("a", b"x")
    (tmp_path / "out/closed").mkdir()
    scandir = os.scandir
    closed = str(tmp_path / "out/closed")

    def refusing(path: str) -> object:
        if path == closed:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    assert [file.path for file in store.list()] == ["a"]
    with pytest.raises(
        StoreError, match=r"Permission denied\. Check that the directory is readable"
    ):
        list(store.list("closed"))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (errno.ENOSPC, "Free some space and rerun the same command: finished work is kept. Or"),
        (errno.EDQUOT, "Free some quota and rerun the same command"),
        (errno.EROFS, "Set data.location (or --to) to a writable directory"),
        (errno.EFBIG, "supports larger files and start from scratch"),
    ],
)
def test_nobody_is_told_that_another_place_keeps_what_is_finished(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, code: int, said: str
) -> None:
    def replace(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(StoreError) as error, store.open_writer("a") as stream:
        stream.write(b"x")
    assert said in str(error.value)
    elsewhere = str(error.value).partition("Or set")[2]
    assert "kept" not in elsewhere
