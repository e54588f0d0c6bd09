# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Readers: what is a document, what is bad and where, whatever the size of the pieces."""

import gzip
import io
import json
import lzma
import tracemalloc
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seatrial.codes.data import BadInputError, InputCode
from seatrial.dataprep.documents import json_lines
from seatrial.dataprep.documents import text as plain_text
from seatrial.dataprep.documents.batches import DocumentBatch
from seatrial.dataprep.documents.decompression import content_of
from seatrial.dataprep.documents.reading import read_documents
from seatrial.dataprep.inputs.selection import format_of
from seatrial.dataprep.tasks.task_list import (
    Compression,
    InputFile,
    InputFormat,
    SourceSettings,
)
from tests.unit.dataprep.kernel_runs import packed

PLAIN = SourceSettings("s")
PACKINGS = [*Compression]
LINES = [
    b'{"text": "a"}',
    b'{"x": [1, {"text": "no"}], "text": "b\\n\\u00e9"}',
    '{"text": "漢字"}'.encode(),
    b"",
    b" \r",
    b"[]",
    b'{"text": "a", "text": "last"}',
    b'{"text": 1, "text": "last"}',
    b'{"text": "first", "te\\u0078t": null}',
    b'{"text": "x", "n": 123456789012345678901234567890}',
    b'{"text": "cut',
    b'{"text": "\xff"}',
    b'{"text": "\\ud800"}',
    b'\xef\xbb\xbf{"text": "marked"}',
    b'{"text": {"text": "x"}}',
    b'{"text": "' + b"long " * 100 + b'"}',
]


def read(
    stored: bytes,
    name: str = "a.jsonl",
    source: SourceSettings = PLAIN,
    kind: InputFormat | None = None,
) -> list[DocumentBatch]:
    file = InputFile(name, len(stored), "", kind or format_of(name) or InputFormat.JSONL)
    return list(read_documents(file, source, lambda _: io.BytesIO(stored)))


def texts(batches: Sequence[DocumentBatch]) -> list[str]:
    return [text for batch in batches for text in batch.texts]


def bad(batches: Sequence[DocumentBatch]) -> list[tuple[int, str]]:
    return [(line.place.line, str(line.reason)) for batch in batches for line in batch.bad]


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    lines=st.lists(st.sampled_from(LINES), max_size=30),
    last=st.sampled_from([b"", b"\n"]),
    block=st.integers(140, 400),
    name=st.sampled_from(["a.jsonl", *(f"a.jsonl{packing}" for packing in PACKINGS)]),
)
def test_documents_do_not_depend_on_the_pieces(
    monkeypatch: pytest.MonkeyPatch, lines: list[bytes], last: bytes, block: int, name: str
) -> None:
    content = b"\n".join(lines) + last
    monkeypatch.setattr(json_lines, "_BLOCK", 1 << 20)
    whole = read(content)
    monkeypatch.setattr(json_lines, "_BLOCK", block)
    # In small blocks most lines are read by simdjson, and in one block all by orjson.
    pieces = read(packed(content, name), name)
    assert texts(pieces) == texts(whole)
    assert bad(pieces) == bad(whole)
    for batch in pieces:
        for number, text in enumerate(batch.texts):
            place = batch.place(number)
            assert content[: place.offset].count(b"\n") == place.line - 1
            line = content[place.offset :].split(b"\n")[0]
            assert json.loads(line.decode("utf-8-sig"))["text"] == text
        for each in batch.bad:
            assert content[: each.place.offset].count(b"\n") == each.place.line - 1


def test_reasons_of_bad_lines() -> None:
    lines = {
        b"{": "not-json",
        b'{"text": NaN}': "not-json",
        b'{"text": "\0"}': "not-json",
        b'{"text": "\xff"}': "not-utf-8",
        b'{"text": "\xed\xa0\x80"}': "not-utf-8",
        b'{"text": "\\ud800"}': "lone-surrogate",
        b'{"text": "\\udc00"}': "lone-surrogate",
        b'{"a": ' + b"[" * 3000 + b"]" * 3000 + b"}": "nested-too-deep",
        b'["text"]': "not-an-object",
        b'"text"': "not-an-object",
        b'{"txt": "a"}': "no-text-field",
        b'{"text": null}': "no-text-field",
        b'{"text": ["a"]}': "text-not-a-string",
        b'\xef\xbb\xbf{"text": "a"}': "not-json",
    }
    found = bad(read(b"\n".join([b'{"text": "good"}', *lines])))
    assert [reason for _, reason in found] == [*lines.values()]
    assert [line for line, _ in found] == [*range(2, len(lines) + 2)]


def test_an_excerpt_is_short_and_printable() -> None:
    (batch,) = read(b"\x1b[31m" + b"\xff" * 1000)
    (line,) = batch.bad
    assert len(line.shown) <= 60
    assert line.shown.isprintable()
    assert line.shown.isascii()


def test_a_mark_of_the_byte_order_may_begin_a_file() -> None:
    data = '\N{BYTE ORDER MARK}{"text": "a"}\n{"text": "b"}\n'.encode()
    assert texts(read(data)) == ["a", "b"]
    assert texts(read("\N{BYTE ORDER MARK}words".encode(), "a.txt")) == ["words"]


def test_fields_lie_in_objects() -> None:
    source = SourceSettings("s", "body.text", "meta.d")
    rows = [
        {"body": {"text": "a"}, "meta": {"d": "x"}},
        {"body": "text", "meta": {"d": "x"}},
        {"body": {"text": "b"}, "meta": {"d": 7}},
        {"body": {"text": "c"}, "meta": []},
        {"body": {"text": "d"}, "meta": {"d": "y" * 257}},
        {"body": {"text": "e"}, "meta": {"d": ""}},
    ]
    (batch,) = read("".join(f"{json.dumps(row)}\n" for row in rows).encode(), source=source)
    assert (batch.texts, batch.domains) == (["a", "e"], ["x", ""])
    assert bad([batch]) == [
        (2, "no-text-field"),
        (3, "no-domain-field"),
        (4, "no-domain-field"),
        (5, "no-domain-field"),
    ]
    twice = b'{"body": {"text": "a"}, "meta": {"d": "x", "d": "y"}}'
    (batch,) = read(twice, source=source)
    assert batch.domains == ["y"]


def test_a_line_without_end_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "LONGEST", 1000)
    monkeypatch.setattr(json_lines, "_BLOCK", 200)
    long = b'{"text": "' + b"x" * 5000 + b'"}'
    data = b'{"text": "a"}\n' + long + b'\n{"text": "b"}\n' + long
    batches = read(data)
    assert texts(batches) == ["a", "b"]
    assert bad(batches) == [(2, "too-long"), (4, "too-long")]
    offsets = [line.place.offset for batch in batches for line in batch.bad]
    assert offsets == [14, 14 + len(long) + 1 + 14]


@pytest.mark.parametrize("name", [*(f"a.jsonl{packing}" for packing in PACKINGS), "a.txt.zst"])
def test_every_cut_of_a_compressed_file_is_an_error(name: str) -> None:
    content = b'{"text": "some words"}\n' * 3
    stored = packed(content, name)
    several = stored + stored
    assert len(texts(read(several, name))) == (1 if "txt" in name else 6)
    for size in range(len(several)):
        if size == len(stored):
            continue
        with pytest.raises(BadInputError) as error:
            read(several[:size], name)
        (finding,) = error.value.findings
        assert (finding.code, finding.where.file) == (InputCode.STREAM, name)


@pytest.mark.parametrize("name", [f"a{packing}" for packing in PACKINGS])
@pytest.mark.parametrize("content", [b"", b"incompressible", bytes(5_000_000)])
def test_content_comes_out_whole(name: str, content: bytes) -> None:
    stored = packed(content, name)
    for size in (100, 1 << 20) if len(content) < 1000 else (1 << 20,):
        reader, out = content_of(io.BytesIO(stored * 2), name), b""
        with memoryview(bytearray(size)) as piece:
            while count := reader.readinto(piece):
                out += piece[:count]
        assert out == content * 2


def test_gzip_members_may_be_padded() -> None:
    line = b'{"text": "a"}\n'
    stored = gzip.compress(line) + bytes(100) + gzip.compress(line) + bytes(7)
    assert texts(read(stored, "a.jsonl.gz")) == ["a", "a"]


def test_damage_and_trailing_rubbish_are_errors() -> None:
    line = b'{"text": "a"}\n' * 100
    checked = zstandard.ZstdCompressor(write_checksum=True).compress(line)
    for stored in (checked + b"rubbish", checked[:-1] + bytes([checked[-1] ^ 1])):
        with pytest.raises(BadInputError, match="zstd stream"):
            read(stored, "a.jsonl.zst")
    with pytest.raises(BadInputError, match="gzip stream"):
        read(gzip.compress(line) + b"rubbish", "a.jsonl.gz")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a.jsonl.bz2", "the bzip2 stream is damaged"),
        ("a.jsonl.xz", "the xz stream is damaged"),
        ("a.jsonl.lz4", "the lz4 stream is damaged"),
    ],
)
def test_a_file_that_is_not_compressed_as_its_name_says(name: str, said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        read(b'{"text": "a"}\n' * 100, name)
    with pytest.raises(BadInputError, match=f"the {said.split()[1]} stream"):
        read(packed(b'{"text": "a"}\n', name) + b"rubbish" * 10, name)


def test_a_damaged_xz_or_bzip2_file_never_gives_other_documents() -> None:
    content = b'{"text": "some words"}\n' * 3
    for name in ("a.jsonl.xz", "a.jsonl.bz2"):
        stored = packed(content, name)
        for at in range(len(stored)):
            flipped = stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :]
            with suppress(BadInputError):
                assert texts(read(flipped, name)) == ["some words"] * 3, at


def test_an_xz_file_that_asks_for_gigabytes_of_memory_is_an_error() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}]
    with pytest.raises(BadInputError, match="Memory usage limit exceeded"):
        read(lzma.compress(b'{"text": "a"}\n', filters=filters), "a.jsonl.xz")


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_bomb_is_one_line_that_is_too_long(
    packing: Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "LONGEST", 1 << 20)
    monkeypatch.setattr(json_lines, "_GROWTH", 1 << 20)
    stored = packed(b" " * (40 << 20) + b'\n{"text": "a"}\n', f"a{packing}")
    tracemalloc.start()
    batches = read(stored, f"a.jsonl{packing}")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (texts(batches), bad(batches)) == (["a"], [(1, "too-long")])
    assert peak < 20 << 20


def test_the_text_of_a_file_can_be_split_into_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    content = "\ufeffone\r\n\n \ntwo é\nthree\n\n\nfour".encode()
    monkeypatch.setattr(plain_text, "_PIECE", 128)
    for size in (65, 1 << 20):
        monkeypatch.setattr(plain_text, "_PIECE", size)
        lines = read(content, "a.txt", kind=InputFormat.TEXT_LINES)
        assert texts(lines) == ["one", "two é", "three", "four"]
        places = [batch.place(i) for batch in lines for i in range(len(batch.texts))]
        assert [(place.line, place.offset) for place in places] == [
            (1, 0), (4, 11), (5, 18), (8, 26)
        ]  # fmt: skip
        blocks = read(packed(content, "a.txt.xz"), "a.txt.xz", kind=InputFormat.TEXT_PARAGRAPHS)
        assert texts(blocks) == ["one", "two é\nthree", "four"]


def test_bad_lines_of_text(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"good\nba\xffd\n\nvery long line\nshort\n\nlast\n"
    monkeypatch.setattr(plain_text, "LONGEST", 8)
    lines = read(content, "a.txt", kind=InputFormat.TEXT_LINES)
    assert texts(lines) == ["good", "short", "last"]
    assert bad(lines) == [(2, "not-utf-8"), (4, "too-long")]
    assert lines[0].bad[0].place.offset == 7
    blocks = read(content, "a.txt", kind=InputFormat.TEXT_PARAGRAPHS)
    assert (texts(blocks), bad(blocks)) == (["last"], [(1, "too-long"), (4, "too-long")])
    source = SourceSettings("s", "text", "d")
    found = bad(read(b"a\n\nb\n", "a.txt", source, InputFormat.TEXT_LINES))
    assert found == [(1, "no-domain-field"), (3, "no-domain-field")]


def parquet(columns: dict[str, Any], **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, **options)
    return sink.getvalue()


def test_rows_of_parquet() -> None:
    columns = {
        "text": pa.array(["a", None, "", "漢字"]).dictionary_encode(),
        "meta": pa.array([{"d": "x"}, {"d": "y"}, {"d": None}, {"d": "z"}]),
        "other": list(range(4)),
    }
    source = SourceSettings("s", "text", "meta.d")
    batches = read(parquet(columns, row_group_size=2), "a.parquet", source)
    assert texts(batches) == ["a", "漢字"]
    assert [name for batch in batches for name in batch.domains or ()] == ["x", "z"]
    assert bad(batches) == [(2, "no-text-field"), (3, "no-domain-field")]
    assert [batch.place(i).line for batch in batches for i in range(len(batch.texts))] == [1, 4]


def test_rows_that_are_not_utf_8() -> None:
    raw = pa.array([b"good", b"\xff", b"fine"], pa.binary())
    column = pa.StringArray.from_buffers(3, *raw.buffers()[1:])
    batches = read(parquet({"text": column}), "a.parquet")
    assert texts(batches) == ["good", "fine"]
    assert bad(batches) == [(2, "not-utf-8")]


@pytest.mark.parametrize(
    ("columns", "source", "said"),
    [
        ({"content": ["a"], "id": [1]}, PLAIN, "the file has content, id"),
        ({"text": [1]}, PLAIN, "the column text contains int64"),
        ({"text": [b"x"]}, PLAIN, "the column text contains binary"),
        ({"text": ["a"]}, SourceSettings("s", "text", "meta.d"), "no column meta.d"),
        ({"text": [{"en": "a"}]}, SourceSettings("s", "text.de"), "text has en"),
    ],
)
def test_parquet_without_the_column_says_what_there_is(
    columns: dict[str, Any], source: SourceSettings, said: str
) -> None:
    with pytest.raises(BadInputError) as error:
        read(parquet(columns), "a.parquet", source)
    (finding,) = error.value.findings
    assert finding.code == InputCode.PARQUET
    assert said in finding.rule


@pytest.mark.parametrize("stored", [b"", b"PAR1", b"rubbish" * 100])
def test_what_is_no_parquet_is_an_error_of_the_user(stored: bytes) -> None:
    with pytest.raises(BadInputError, match="cannot be read as Parquet"):
        read(stored, "a.parquet")


def test_text_files(monkeypatch: pytest.MonkeyPatch) -> None:
    assert texts(read(b"", "a.txt")) == [""]
    (batch,) = read(b"good \xff bad", "a.txt")
    assert bad([batch]) == [(1, "not-utf-8")]
    assert batch.bad[0].place.offset == 5
    monkeypatch.setattr(plain_text, "LONGEST", 10)
    assert bad(read(b"x" * 11, "a.txt")) == [(1, "too-long")]
    assert bad(read(b"x", "a.txt", SourceSettings("s", "text", "d"))) == [(1, "no-domain-field")]
