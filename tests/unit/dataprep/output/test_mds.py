# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Tokens cut into MDS: the bytes of a shard, and that any interruption leaves the same."""

import json
import struct
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, cast

import numpy as np
import pytest

from seatrial.dataprep.output import mds_shard
from seatrial.dataprep.output.dataset import DataFile, DatasetRecord, Segment
from seatrial.dataprep.output.mds_shard import MdsShape, encoded_index, encoded_shard
from seatrial.dataprep.output.mds_splits import Cut, check_cut, cut, cuts_at, require_samples
from seatrial.errors import FindingsError
from seatrial.storage.directory import LocalStore

CUT = Cut("mds-8", "corpus", 8, (80.0, 20.0, 0.0))


def prepared(root: Path, sizes: tuple[int, ...] = (100, 37), salt: int = 0) -> DatasetRecord:
    """Files of tokens, two bytes each, and what of their record is read."""
    root.mkdir(exist_ok=True)
    files, next_token = [], salt
    for number, size in enumerate(sizes):
        tokens = np.arange(next_token, next_token + size, dtype="<u2")
        next_token += size
        (root / f"corpus-{number}.bin").write_bytes(tokens.tobytes())
        digest = f"{salt}-{number}"
        segment = Segment(0, 1, size, "0" * 64 + digest)
        files.append(DataFile(f"corpus-{number}", "corpus", "", 1, 0, size, 2, "", (segment,)))
    return cast(DatasetRecord, SimpleNamespace(files=tuple(files)))


def read_back(root: Path, split: str) -> list[list[int]]:
    """The samples of a split, by what the format says and not by our writer."""
    index = json.loads((root / "mds-8" / split / "index.json").read_bytes())
    found = []
    for shard in index["shards"]:
        data = (root / "mds-8" / split / shard["raw_data"]["basename"]).read_bytes()
        assert len(data) == shard["raw_data"]["bytes"]
        (count,) = struct.unpack_from("<I", data)
        assert count == shard["samples"]
        places = struct.unpack_from(f"<{count + 1}I", data, 4)
        for begin, end in pairwise(places):
            (size,) = struct.unpack_from("<I", data, begin)
            assert begin + 4 + size == end
            assert data[begin + 4] == (1 << 2) | 0
            length = data[begin + 5]
            found.append(list(struct.unpack_from(f"<{length}i", data, begin + 6)))
    return found


def everything(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def _small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three samples a shard."""
    monkeypatch.setattr(mds_shard, "SIZE_LIMIT", 4 + 4 + len(mds_shard._settings()) + 3 * 43)


def test_a_shard_is_as_the_library_writes_it() -> None:
    shard = encoded_shard(np.array([7, 8, 9, 10], np.int32), 2)
    settings = mds_shard._settings()
    begin = 4 + 12 + len(settings)
    sample = struct.pack("<IBB", 10, 4, 2)
    assert shard == (
        struct.pack("<4I", 2, begin, begin + 14, begin + 28)
        + settings
        + sample
        + struct.pack("<2i", 7, 8)
        + sample
        + struct.pack("<2i", 9, 10)
    )


@pytest.mark.parametrize(("length", "head"), [(255, 6), (256, 7), (65535, 7), (65536, 9)])
def test_a_size_takes_the_narrowest_number(length: int, head: int) -> None:
    assert MdsShape(length, 1).sample_bytes == head + 4 * length


def test_a_shard_has_the_size_that_its_shape_says() -> None:
    shape = MdsShape(2048, 20_000)
    assert [shape.samples_of(shard) for shard in range(shape.shards)] == [8180, 8180, 3640]
    last = encoded_shard(np.zeros(3640 * 2048, np.int32), 2048)
    assert len(last) == shape.shard_bytes(2)
    assert json.loads(encoded_index(shape))["shards"][0]["size_limit"] == 1 << 26


@pytest.mark.usefixtures("_small_shards")
def test_documents_are_joined_over_files_and_cut(tmp_path: Path) -> None:
    record = prepared(tmp_path)
    cut(LocalStore(tmp_path), record, CUT)
    samples = read_back(tmp_path, "train") + read_back(tmp_path, "val")
    # 137 tokens make 17 samples; the last token is left over.
    assert [token for sample in samples for token in sample] == list(range(136))
    assert (len(read_back(tmp_path, "train")), len(read_back(tmp_path, "val"))) == (14, 3)
    assert check_cut(LocalStore(tmp_path), record, CUT) == []


class Dying(LocalStore):
    """A store that is killed while it writes a certain file."""

    def __init__(self, root: Path, left: int) -> None:
        super().__init__(root)
        self.left = left

    def open_writer(self, path: str) -> BinaryIO:
        self.left -= 1
        stream = super().open_writer(path)
        if self.left < 0:
            stream.write(b"half a shard")
            raise KeyboardInterrupt
        return stream


@pytest.mark.usefixtures("_small_shards")
@pytest.mark.parametrize("written", range(8))
def test_an_interruption_anywhere_leaves_the_same(tmp_path: Path, written: int) -> None:
    straight = tmp_path / "straight"
    cut(LocalStore(straight), prepared(straight), CUT)
    killed = tmp_path / "killed"
    record = prepared(killed)
    with pytest.raises(KeyboardInterrupt):
        cut(Dying(killed, written), record, CUT)
    cut(LocalStore(killed), record, CUT)
    assert everything(killed) == everything(straight)


@pytest.mark.usefixtures("_small_shards")
def test_what_is_there_is_not_written_again(tmp_path: Path) -> None:
    record = prepared(tmp_path)
    cut(LocalStore(tmp_path), record, CUT)
    cut(Dying(tmp_path, 0), record, CUT)


@pytest.mark.usefixtures("_small_shards")
def test_shards_of_other_tokens_are_replaced(tmp_path: Path) -> None:
    cut(LocalStore(tmp_path), prepared(tmp_path), CUT)
    record = prepared(tmp_path, salt=1000)
    cut(LocalStore(tmp_path), record, CUT)
    assert read_back(tmp_path, "train")[0] == list(range(1000, 1008))
    assert check_cut(LocalStore(tmp_path), record, CUT) == []


class DyingRemoval(LocalStore):
    """A store that is killed once it has removed so many files."""

    def __init__(self, root: Path, left: int) -> None:
        super().__init__(root)
        self.left = left

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            if not self.left:
                raise KeyboardInterrupt
            super().delete([path])
            self.left -= 1


@pytest.mark.usefixtures("_small_shards")
@pytest.mark.parametrize("removed", range(9))
def test_a_removal_that_is_killed_leaves_nothing_that_counts(tmp_path: Path, removed: int) -> None:
    cut(LocalStore(tmp_path), prepared(tmp_path), CUT)
    record = prepared(tmp_path, salt=1000)
    with pytest.raises(KeyboardInterrupt):
        cut(DyingRemoval(tmp_path, removed), record, CUT)
    cut(LocalStore(tmp_path), record, CUT)
    assert check_cut(LocalStore(tmp_path), record, CUT) == []


@pytest.mark.usefixtures("_small_shards")
@pytest.mark.parametrize("harm", ["changed", "removed"])
def test_damage_is_found(tmp_path: Path, harm: str) -> None:
    record = prepared(tmp_path)
    cut(LocalStore(tmp_path), record, CUT)
    shard = tmp_path / "mds-8" / "train" / "shard.00001.mds"
    if harm == "removed":
        shard.unlink()
    else:
        data = bytearray(shard.read_bytes())
        data[-1] ^= 1
        shard.write_bytes(data)
    (found,) = check_cut(LocalStore(tmp_path), record, CUT)
    assert found.where.file == "mds-8/train/shard.00001.mds"


@pytest.mark.parametrize("left", ["", "[]", "{}"])
def test_a_record_that_a_kill_left_empty_is_named(tmp_path: Path, left: str) -> None:
    record = prepared(tmp_path)
    cut(LocalStore(tmp_path), record, CUT)
    (tmp_path / "mds-8" / "made-of.json").write_text(left)
    with pytest.raises(FindingsError, match="does not describe its samples"):
        cuts_at(LocalStore(tmp_path))
    cut(LocalStore(tmp_path), record, CUT)
    assert cuts_at(LocalStore(tmp_path)) == [CUT]


def test_a_split_without_samples_is_refused_when_it_is_read(tmp_path: Path) -> None:
    record: Any = prepared(tmp_path, (17,))
    require_samples(record, CUT, evaluates=False)
    with pytest.raises(FindingsError, match="val gets none"):
        require_samples(record, CUT, evaluates=True)
