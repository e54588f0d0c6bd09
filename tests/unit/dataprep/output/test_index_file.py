# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import io
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.dataprep.output import index_file
from seatrial.dataprep.output.index_file import IndexHeader, map_index, parse_header, write_index
from seatrial.errors import FindingsError


def plain_index(lengths: list[int], token_bytes: int) -> bytes:
    """The format, spelt out one number at a time."""
    kept = [n for n in lengths if n]
    out = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, {2: 8, 4: 4}[token_bytes], len(kept), 1)
    out = out[:26] + struct.pack("<Q", len(lengths) + 1)
    out += b"".join(struct.pack("<i", n) for n in kept)
    out += b"".join(struct.pack("<q", sum(kept[:i]) * token_bytes) for i in range(len(kept)))
    firsts = [sum(n > 0 for n in lengths[:i]) for i in range(len(lengths) + 1)]
    return out + b"".join(struct.pack("<q", first) for first in firsts)


def written(lengths: list[int], token_bytes: int, block: int = 3) -> bytes:
    out = io.BytesIO()
    header = IndexHeader(token_bytes, sum(n > 0 for n in lengths), len(lengths))
    array = np.array(lengths, np.int32)
    write_index(out, header, lambda: np.array_split(array, -(-len(array) // block) or 1), "x.idx")
    return out.getvalue()


@given(st.lists(st.integers(0, 9), max_size=20), st.sampled_from([2, 4]))
def test_every_byte_is_the_formats(lengths: list[int], token_bytes: int) -> None:
    assert written(lengths, token_bytes) == plain_index(lengths, token_bytes)


def test_pointers_pass_the_limit_of_32_bits() -> None:
    data = written([2**31 - 1] * 3, 4)
    pointers = np.frombuffer(data[34 + 12 :], "<i8", 3)
    assert pointers.tolist() == [0, (2**31 - 1) * 4, (2**31 - 1) * 8]


def test_a_mapped_index_gives_back_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "x.idx"
    path.write_bytes(written([3, 0, 2, 0], 2))
    index = map_index(path)
    assert index.header == IndexHeader(2, 2, 4)
    assert index.lengths.tolist() == [3, 2]
    assert index.pointers.tolist() == [0, 6]
    assert index.documents.tolist() == [0, 1, 1, 2, 2]
    assert [index.span(d) for d in range(4)] == [(0, 6), (6, 6), (6, 10), (10, 10)]


def test_an_index_of_nothing_can_be_mapped(tmp_path: Path) -> None:
    path = tmp_path / "x.idx"
    path.write_bytes(written([], 2))
    assert map_index(path).end == 0
    path.write_bytes(written([0], 2))
    assert map_index(path).span(0) == (0, 0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data[:20], "an index has 34 bytes"),
        (lambda data: b"X" + data[1:], "not a Megatron index"),
        (lambda data: data[:9] + b"\2" + data[10:], "version 2"),
        (lambda data: data[:17] + b"\6" + data[18:], "code 6"),
        (lambda data: data[:26] + bytes(8) + data[34:], "0 document indices"),
        (lambda data: data + b"\0", "bytes"),
        (lambda data: data[:-1], "bytes"),
        (lambda data: data[:18] + b"\xff" * 8 + data[26:], "impossible counts"),
    ],
)
def test_a_damaged_header_is_refused(
    tmp_path: Path, change: Callable[[bytes], bytes], said: str
) -> None:
    path = tmp_path / "x.idx"
    path.write_bytes(change(written([3, 2], 2)))
    with pytest.raises(FindingsError, match=said) as caught:
        map_index(path)
    assert caught.value.findings[0].where.file == str(path)
    assert caught.value.findings[0].fix


def test_the_header_reads_as_it_was_written() -> None:
    header = IndexHeader(4, 5, 7)
    assert parse_header(header.to_bytes(), "x") == header
    assert header.size == 34 + 12 * 5 + 8 * 8


@pytest.mark.parametrize(
    ("lengths", "said"),
    [([1, -1], "negative"), ([1], "1 documents"), ([1, 0], "1 of them with text")],
)
def test_lengths_that_contradict_the_header_are_refused(lengths: list[int], said: str) -> None:
    header = IndexHeader(2, 2, 2)
    with pytest.raises(FindingsError, match=said):
        write_index(io.BytesIO(), header, lambda: [np.array(lengths, np.int32)], "x.idx")


def test_more_documents_than_the_engine_can_count_are_refused() -> None:
    header = IndexHeader(2, 2**31 - 1, 2**31 - 1)
    with pytest.raises(FindingsError, match="the engine supports 2147483646"):
        write_index(io.BytesIO(), header, list, "x.idx")


class Counting:
    """A file that keeps nothing."""

    size = 0

    def write(self, data: memoryview, /) -> None:
        self.size += data.nbytes


def peak_of(blocks: int) -> int:
    block = np.ones(index_file.BLOCK, np.int32)
    block[7] = 0
    header = IndexHeader(2, blocks * (block.size - 1), blocks * block.size)
    tracemalloc.start()
    try:
        out = Counting()
        write_index(out, header, lambda: (block for _ in range(blocks)), "x.idx")
        assert out.size == header.size
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_documents() -> None:
    assert peak_of(24) < 1.1 * peak_of(4)
