# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Verifying ends soon when it is interrupted, and says what it could not look at."""

import threading
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from seatrial.codes.datasets import DatasetCode
from seatrial.dataprep.inspection import verify_at
from seatrial.dataprep.output.assemble import assemble
from seatrial.dataprep.output.dataset import DatasetRecord, summarize
from seatrial.dataprep.prepare import prepare
from seatrial.dataprep.verification import tokens, verify
from seatrial.dataprep.verification.stopping import Stoppable, StoppedError
from seatrial.findings import Severity
from seatrial.sdk.plan import plan
from seatrial.storage.directory import LocalStore
from tests.unit.dataprep.little_corpus import InlineDriver, forget_copy, write_corpus
from tests.unit.dataprep.made_parts import task_list, write_part

TOKENS = 1000


class Held(LocalStore):
    """A store whose tokens of one source come only after another source was checked."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.go = threading.Event()
        self.reads = 0

    def open_reader(self, path: str, start: int = 0) -> BinaryIO:
        stream = super().open_reader(path, start)
        return Counting(self, stream) if path == "b-00000.bin" else stream  # type: ignore[return-value]


class Counting:
    def __init__(self, store: Held, stream: BinaryIO) -> None:
        self.store, self.stream = store, stream

    def readinto(self, buffer: memoryview) -> int:
        self.store.go.wait(30)
        self.store.reads += 1
        return int(self.stream.readinto(buffer))  # type: ignore[attr-defined]

    def close(self) -> None:
        self.stream.close()


def test_an_interrupt_ends_the_reading_of_files_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "CHUNK", 1)
    monkeypatch.setattr(verify, "THREADS", 2)
    store = Held(tmp_path)
    tasks = task_list(["a", "b"])
    documents = {"": [[int(i)] for i in np.arange(TOKENS)]}
    parts = [write_part(store, tasks, number, documents) for number in range(2)]
    record = DatasetRecord(
        tasks.digest, tasks.settings, assemble(tasks, parts, store), summarize(tasks, parts)
    )
    store.reads = 0
    stop = Stoppable.stop

    def stopped(reading: Stoppable) -> None:
        stop(reading)
        store.go.set()

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Stoppable, "stop", stopped)
    with pytest.raises(KeyboardInterrupt):
        verify.verify(store, record, progress=interrupt)
    assert store.reads <= 1


def test_a_stream_that_is_to_stop_gives_no_more(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abcdef")
    reading = Stoppable(LocalStore(tmp_path))
    with reading.open_reader("a", 2) as stream:
        assert stream.read(2) == b"cd"
        reading.stop()
        with pytest.raises(StoppedError):
            stream.read(2)


def test_it_is_said_when_no_document_could_be_decoded(tmp_path: Path) -> None:
    spec = write_corpus(tmp_path, sources=1)
    prepare(plan(spec), InlineDriver())
    assert verify_at(str(tmp_path / "out")) == []
    (tmp_path / "tokenizer.json").unlink()
    assert verify_at(str(tmp_path / "out")) == [], "the data set has its own copy"
    forget_copy(tmp_path / "out")
    (finding,) = verify_at(str(tmp_path / "out"))
    assert (finding.code, finding.severity) == (DatasetCode.ROUND_TRIP, Severity.NOTE)
    assert str(tmp_path / "tokenizer.json") in finding.rule
    assert finding.fix
