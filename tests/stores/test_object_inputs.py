# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Objects as inputs, against servers that run here."""

from uuid import uuid4

import pytest

from seatrial.dataprep.inputs.access import list_inputs, open_input
from seatrial.dataprep.inputs.selection import InputError
from seatrial.dataprep.tasks.task_list import InputFormat
from seatrial.spec.data import DataSource
from seatrial.storage.object_store import ObjectStore
from seatrial.storage.store import StoreError
from tests.stores.conftest import QUICK, Running, noise
from tests.stores.faults import Fault

pytestmark = [
    pytest.mark.stores,
    pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning"),
]


@pytest.fixture
def corpus(server: Running) -> ObjectStore:
    """A place with a few files."""
    store = ObjectStore(f"{server.root}/{uuid4().hex}/data", QUICK)
    for path in ("train/b.jsonl.zst", "train/a.jsonl.zst", "valid/c.jsonl.zst", "README.md"):
        store.create(path, path.encode())
    return store


def _source(address: str, **options: object) -> DataSource:
    return DataSource.model_validate({"from": address, **options})


def test_lists_with_size_and_version(corpus: ObjectStore) -> None:
    inputs = list_inputs(_source(corpus.address), QUICK)
    names = ["train/a.jsonl.zst", "train/b.jsonl.zst", "valid/c.jsonl.zst"]
    assert [file.address for file in inputs] == [f"{corpus.address}/{name}" for name in names]
    assert [file.size for file in inputs] == [17, 17, 17]
    assert all(file.version and '"' not in file.version for file in inputs)
    assert len({file.version for file in inputs}) == 3
    assert {file.format for file in inputs} == {InputFormat.JSONL}
    assert list_inputs(_source(corpus.address + "/", files="train/*"), QUICK) == inputs[:2]


def test_the_address_of_one_file(corpus: ObjectStore) -> None:
    (file,) = list_inputs(_source(f"{corpus.address}/train/a.jsonl.zst"), QUICK)
    assert file in list_inputs(_source(corpus.address), QUICK)
    with open_input(file, QUICK) as stream:
        assert stream.read() == b"train/a.jsonl.zst"


def test_nothing_there(corpus: ObjectStore) -> None:
    with pytest.raises(InputError, match="no object in"):
        list_inputs(_source(f"{corpus.address}/nothing"), QUICK)
    with pytest.raises(InputError, match="Move the glob to files"):
        list_inputs(_source(f"{corpus.address}/train/*.zst"), QUICK)


def test_a_bucket_that_is_not_there(server: Running) -> None:
    with pytest.raises((InputError, StoreError), match=r"://absent/x: .*Check the"):
        list_inputs(_source(f"{server.scheme}://absent/x"), QUICK)


def test_bytes_are_exact_in_spite_of_faults(server: Running, corpus: ObjectStore) -> None:
    data = noise(7, 17_000_001)
    with corpus.open_writer("large.jsonl") as stream:
        stream.write(data)
    (file,) = list_inputs(_source(corpus.address, files="large.jsonl"), QUICK)
    server.faults.plan(
        Fault(cut_after=1_000_000),
        Fault(429, retry_after=1),
        Fault(),
        Fault(500),
        Fault(cut_after=10),
        when=server.is_data,
    )
    with open_input(file, QUICK) as stream:
        assert stream.read() == data
        assert stream.read() == b""
        stream.seek(-5, 2)
        assert stream.read() == data[-5:]


def test_a_changed_object_is_refused(corpus: ObjectStore) -> None:
    (file,) = list_inputs(_source(corpus.address, files="train/a.*"), QUICK)
    with corpus.open_writer("train/a.jsonl.zst") as stream:
        stream.write(b"another content! ")
    with pytest.raises(InputError, match="changed since the inputs were listed"):
        open_input(file, QUICK)
    corpus.delete(["train/a.jsonl.zst"])
    with pytest.raises(InputError, match="deleted since the inputs were listed"):
        open_input(file, QUICK)


def test_a_change_while_reading_is_noticed(corpus: ObjectStore) -> None:
    with corpus.open_writer("large.jsonl") as stream:
        stream.write(bytes(9_000_000))
    (file,) = list_inputs(_source(corpus.address, files="large.jsonl"), QUICK)
    stream = open_input(file, QUICK)
    stream.read(100)
    with corpus.open_writer("large.jsonl") as writer:
        writer.write(noise(8, 9_000_000))
    with pytest.raises(InputError, match="changed since the inputs were listed"):
        stream.read()
    stream = open_input(list_inputs(_source(corpus.address, files="large.jsonl"), QUICK)[0], QUICK)
    stream.read(100)
    corpus.delete(["large.jsonl"])
    with pytest.raises(InputError, match="deleted since the inputs were listed"):
        stream.close()


def test_faults_without_end(server: Running, corpus: ObjectStore) -> None:
    (file,) = list_inputs(_source(corpus.address, files="train/a.*"), QUICK)
    stream = open_input(file, QUICK)
    server.faults.plan(Fault(cut_after=3), when=server.is_data, forever=True)
    with pytest.raises(StoreError, match=r"all 3 attempts .* failed.*Rerun the same command later"):
        stream.read()
    assert 3 <= len(server.faults.seen) <= 100
    server.faults.clear()
    stream.close()
