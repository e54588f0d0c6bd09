# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Archives: which members are documents, and no archive that is damaged, cut or crafted passes."""

import io
import json
import tarfile
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from seatrial.codes.data import BadInputError, InputCode
from seatrial.dataprep.documents import tar_stream
from seatrial.dataprep.documents import text as plain_text
from seatrial.dataprep.documents.batches import DocumentBatch
from seatrial.dataprep.documents.reading import read_documents
from seatrial.dataprep.tasks.task_list import InputFile, InputFormat, SourceSettings
from tests.unit.dataprep.kernel_runs import jsonl, packed, tarred

PLAIN = SourceSettings("s")
LINES = jsonl([{"text": "a"}, {"text": "b"}])


def read(stored: bytes, source: SourceSettings = PLAIN, name: str = "a.tar") -> list[DocumentBatch]:
    file = InputFile(name, len(stored), "", InputFormat.TAR)
    return list(read_documents(file, source, lambda _: io.BytesIO(stored)))


def texts(batches: Sequence[DocumentBatch]) -> list[str]:
    return [text for batch in batches for text in batch.texts]


def bad(batches: Sequence[DocumentBatch]) -> list[tuple[str, str]]:
    return [(line.place.address, str(line.reason)) for batch in batches for line in batch.bad]


def special(name: str, kind: bytes, target: str = "") -> bytes:
    """The header of a member without content."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info.tobuf(tarfile.PAX_FORMAT)


END = bytes(10_240)


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_json_lines_and_text_in_the_order_of_the_members(kind: int) -> None:
    deep = "d" * 90 + "/" + "e" * 60
    stored = tarred(
        [
            ("x/1.jsonl", LINES),
            (f"{deep}/2.txt", b"\xef\xbb\xbfwords\nmore"),
            ("x/3.jsonl.zst", packed(LINES, "a.zst")),
            ("x/picture.jpg", bytes(range(256)) * 5),
            ("x/._3.jsonl", b"resource fork"),
            ("x/4.ndjson", b'{"text": "c"}'),
        ],
        kind,
    )
    batches = read(stored)
    assert texts(batches) == ["a", "b", "words\nmore", "a", "b", "c"]
    places = [str(batch.place(i)) for batch in batches for i in range(len(batch.texts))]
    assert places[:3] == ["a.tar/x/1.jsonl:1", "a.tar/x/1.jsonl:2", f"a.tar/{deep}/2.txt:1"]


def test_samples_of_a_web_dataset() -> None:
    one = json.dumps({"text": "one", "meta": {"d": "x"}}, indent=2).encode()
    stored = tarred(
        [
            ("0001.json", one),
            ("0001.jpg", b"\xff"),
            ("0002.json", b'{"meta": {"d": "y"}, "text": "not this"}'),
            ("0002.txt", b"two"),
            ("0003.txt", b"three"),
            ("0003.json.gz", packed(b'{"meta": {"d": "z"}}', "a.gz")),
            ("sub/0003.txt", b"four"),
            ("0005.json", b"[1]"),
            ("0006.json", b" "),
            ("0007.txt", b"\xff"),
            ("0008.json", b'{"text": 1, "meta": {"d": "x"}}'),
        ]
    )
    batches = read(stored)
    assert texts(batches) == ["one", "two", "three", "four"]
    assert bad(batches) == [
        ("a.tar/0005.json", "not-an-object"),
        ("a.tar/0006.json", "not-json"),
        ("a.tar/0007.txt", "not-utf-8"),
        ("a.tar/0008.json", "text-not-a-string"),
    ]
    batches = read(stored, SourceSettings("s", "text", "meta.d"))
    assert texts(batches) == ["one", "two", "three"]
    assert [domain for batch in batches for domain in batch.domains or ()] == ["x", "y", "z"]
    assert ("a.tar/sub/0003.txt", "no-domain-field") in bad(batches)


def test_many_small_members_come_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_text, "_PIECE", 1000)
    batches = read(tarred([(f"{n:04}.txt", b"word " * 20) for n in range(100)]))
    assert len(texts(batches)) == 100
    assert 9 <= len(batches) <= 11


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tar.zst", "a.tar.xz", "a.tgz"])
def test_every_cut_of_an_archive_is_an_error(name: str) -> None:
    whole = tarred([("1.jsonl", LINES), ("d/2.txt", b"words")])
    # As short as the format allows: two empty blocks at the end.
    whole = whole.rstrip(b"\0")
    whole += bytes(-len(whole) % 512 + 1024)
    stored = packed(whole, name)
    assert texts(read(stored, name=name)) == ["a", "b", "words"]
    # An archive may end with one empty block instead of two.
    allowed = {len(stored), len(stored) - 512} if name == "a.tar" else {len(stored)}
    for size in set(range(0, len(stored), 7)) - allowed - {0}:
        with pytest.raises(BadInputError) as error:
            read(stored[:size], name=name)
        (finding,) = error.value.findings
        assert finding.code in (InputCode.ARCHIVE, InputCode.STREAM)
        assert (finding.where.file, bool(finding.fix)) == (name, True)
    with pytest.raises(BadInputError, match="truncated"):
        read(b"", name=name)


def test_a_changed_header_is_an_error() -> None:
    stored = tarred([("1.jsonl", LINES), ("2.txt", b"words")])
    for at in (3, 1024 + 130):
        changed = stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :]
        with pytest.raises(BadInputError, match=r"damaged at byte [\d,]+: bad checksum"):
            read(changed)
    with pytest.raises(BadInputError, match="the tar archive is damaged"):
        read(b'{"text": "not a tar"}\n' * 100)


def test_archives_can_follow_each_other() -> None:
    stored = tarred([("1.jsonl", LINES)]) + tarred([("2.txt", b"words")])
    assert texts(read(stored)) == ["a", "b", "words"]
    assert texts(read(END)) == []


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_a_link_that_would_be_a_document_is_an_error(kind: bytes) -> None:
    stored = special("x/1.jsonl", kind, "/etc/passwd") + END
    with pytest.raises(BadInputError, match="follows no links in archives") as error:
        read(stored)
    assert error.value.findings[0].where.file == "a.tar/x/1.jsonl"
    other = special("x/latest", kind, "1.jsonl") + tarred([("1.jsonl", LINES)])
    assert texts(read(other)) == ["a", "b"]


def test_names_are_labels_and_no_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stored = tarred(
        [("/etc/cron.d/x.txt", b"a"), ("../../up.txt", b"b"), ("\x1b[31m\n.txt", b"\xff")]
    )
    batches = read(stored)
    assert texts(batches) == ["a", "b"]
    assert bad(batches) == [("a.tar/\\x1b[31m\\n.txt", "not-utf-8")]
    assert not list(tmp_path.iterdir())


def sparse(name: str) -> bytes:
    info = tarfile.TarInfo(name)
    info.type = tarfile.GNUTYPE_SPARSE
    return info.tobuf(tarfile.GNU_FORMAT) + END


def pax(records: dict[str, str], name: str = "1.txt") -> bytes:
    info = tarfile.TarInfo(name)
    info.pax_headers = records
    return info.tobuf(tarfile.PAX_FORMAT) + END


def long_header(kind: bytes) -> bytes:
    info = tarfile.TarInfo("long")
    info.type, info.size = kind, 1 << 30
    return info.tobuf(tarfile.GNU_FORMAT) + b"x" * 4096


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: sparse("1.txt"), "stored as a sparse file"),
        (lambda: pax({"GNU.sparse.major": "1", "path": "1.txt"}), "stored as a sparse file"),
        (lambda: pax({"size": "-5"}), "a size in an extended header is not a number"),
        (lambda: long_header(tarfile.GNUTYPE_LONGNAME), "header has 1,073,741,824 bytes"),
        (lambda: long_header(tarfile.XHDTYPE), "header has 1,073,741,824 bytes"),
        (lambda: special("1.txt", tarfile.XHDTYPE) + END, "an extended header has no member"),
    ],
)
def test_crafted_headers_are_errors(made: Callable[[], bytes], said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        read(made())


def test_records_of_an_extended_header_are_checked() -> None:
    for data in (b"99 path=x\n", b"0 path=x\n", b"path=x\n", b"9 path=xx\n", b"6 abc\n"):
        info = tarfile.TarInfo("p")
        info.type, info.size = tarfile.XHDTYPE, len(data)
        stored = info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(512 - len(data))
        with pytest.raises(BadInputError, match="an extended header has an invalid record"):
            read(stored + tarred([("1.txt", b"x")]))


def test_a_huge_member_is_bad_and_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_text, "LONGEST", 1 << 20)
    huge = bytes(30 << 20)
    stored = packed(
        tarred([("1.txt", huge), ("2.json", huge), ("3.bin", huge), ("4.txt", b"words")]), "a.zst"
    )
    tracemalloc.start()
    batches = read(stored, name="a.tar.zst")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert texts(batches) == ["words"]
    assert [reason for _, reason in bad(batches)] == ["too-long", "too-long"]
    assert peak < 12 << 20


def test_a_member_that_is_cut_names_the_member() -> None:
    stored = tarred([("1.jsonl.gz", packed(LINES, "a.gz")[:-3])])
    with pytest.raises(BadInputError, match="the gzip stream is truncated") as error:
        read(stored)
    assert error.value.findings[0].where.file == "a.tar/1.jsonl.gz"


def test_an_archive_without_documents_says_what_it_has() -> None:
    with pytest.raises(BadInputError, match=r"none of its 2 members is a document \(a.parquet, b"):
        read(tarred([("a.parquet", b"PAR1"), ("b.csv", b"x")]))


def test_the_longest_label() -> None:
    assert len(tar_stream.label_of("a.tar", "n" * 5000)) < 300
