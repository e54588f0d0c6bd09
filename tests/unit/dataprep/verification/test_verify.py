# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import hashlib
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from seatrial.codes.datasets import DatasetCode as Code
from seatrial.dataprep.output import index_file
from seatrial.dataprep.output.assemble import assemble, check_conserved
from seatrial.dataprep.output.dataset import DatasetRecord, summarize
from seatrial.dataprep.verification import tokens as token_checks
from seatrial.dataprep.verification.verify import verify
from seatrial.findings import Finding
from seatrial.spec.data import EndTokenInText
from seatrial.storage.directory import LocalStore
from tests.unit.dataprep.made_parts import END, digest, task_list, tokenizer, write_part

PARTS = (
    ("web", {"": [[1, 2], [], [3]]}),
    ("code", {"": [[4, 5, 6], [7]]}),
    ("web", {"": [[], [8, 9, 10], [11, 12]]}),
)
WEB = "web-00000"


class Made:
    """A data set on disk that can be damaged."""

    def __init__(self, root: Path, policy: EndTokenInText = EndTokenInText.TOKEN) -> None:
        self.root = root
        self.store = LocalStore(root)
        self.tasks = task_list([source for source, _ in PARTS], end_token_in_text=policy)
        self.parts = [
            write_part(self.store, self.tasks, number, domains)
            for number, (_, domains) in enumerate(PARTS)
        ]
        files = assemble(self.tasks, self.parts, self.store)
        self.record = DatasetRecord(
            self.tasks.digest, self.tasks.settings, files, summarize(self.tasks, self.parts)
        )

    def change(self, name: str, change: Callable[[bytearray], bytes | None]) -> None:
        path = self.root / name
        data = bytearray(path.read_bytes())
        changed = change(data)
        path.write_bytes(data if changed is None else changed)

    def number(self, name: str, at: int, form: str, value: int) -> None:
        self.change(name, lambda data: struct.pack_into(form, data, at, value))

    def recorded_again(self) -> None:
        """Make all digests of the record fit the files as they are now."""
        files = []
        for file in self.record.files:
            data, place, segments = (self.root / file.tokens_file).read_bytes(), 0, []
            for segment in file.segments:
                size = segment.tokens * file.token_bytes
                segments.append(replace(segment, digest=digest(data[place : place + size])))
                place += size
            index = digest((self.root / file.index_file).read_bytes())
            files.append(replace(file, segments=tuple(segments), index_digest=index))
        self.record = replace(self.record, files=tuple(files))

    def findings(self) -> list[Finding]:
        return verify(self.store, self.record)

    def codes(self) -> list[str]:
        return sorted(finding.code for finding in self.findings())


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


# Of web-00000: documents [1, 2, END] [] [3, END] [] [8, 9, 10, END] [11, 12, END].
POINTERS = 34 + 4 * 4
DOCUMENTS = POINTERS + 8 * 4


def test_whole_data_have_no_findings(made: Made) -> None:
    assert made.findings() == []
    assert check_conserved(made.tasks, made.parts, made.record.files) == []


@pytest.mark.parametrize("name", [f"{WEB}.bin", f"{WEB}.idx", "code-00000.bin", "code-00000.idx"])
def test_every_flipped_bit_is_found(made: Made, name: str) -> None:
    original = (made.root / name).read_bytes()
    for place in range(len(original)):

        def flip(data: bytearray, place: int = place) -> None:
            data[place] ^= 1 << place % 8

        made.change(name, flip)
        assert made.codes(), f"byte {place}"
        (made.root / name).write_bytes(original)
    assert made.findings() == []


@pytest.mark.parametrize("name", [f"{WEB}.bin", f"{WEB}.idx"])
@pytest.mark.parametrize("change", [lambda d: d[:-1], lambda d: d + b"\0", lambda d: b""])
def test_cut_and_grown_files_are_found(
    made: Made, name: str, change: Callable[[bytearray], bytes]
) -> None:
    made.change(name, change)
    (finding,) = made.findings()
    assert finding.code == Code.SIZE
    assert finding.where.file == name
    assert finding.fix


def test_an_absent_file_is_found(made: Made) -> None:
    (made.root / f"{WEB}.idx").unlink()
    assert made.codes() == [Code.ABSENT]


def test_a_digest_says_which_bytes_and_which_task(made: Made) -> None:
    made.number(f"{WEB}.bin", 12, "<H", 99)
    (finding,) = made.findings()
    assert finding.code == Code.DIGEST
    assert "bytes 10 to 23, of task 2" in finding.rule


def test_swapped_files_are_found(tmp_path: Path) -> None:
    made = Made(tmp_path)
    for ending in ("bin", "idx"):
        one, other = tmp_path / f"{WEB}.{ending}", tmp_path / f"code-00000.{ending}"
        one_data, other_data = one.read_bytes(), other.read_bytes()
        one.write_bytes(other_data)
        other.write_bytes(one_data)
        assert made.codes() == [Code.SIZE, Code.SIZE]
        one.write_bytes(one_data)
        other.write_bytes(other_data)


def test_files_of_one_size_that_were_swapped_are_found(made: Made) -> None:
    made.change(f"{WEB}.bin", lambda data: bytes(data[10:] + data[:10]))
    assert Code.DIGEST in made.codes()


def test_a_shifted_pointer_is_found_without_its_digest(made: Made) -> None:
    made.number(f"{WEB}.idx", POINTERS + 8, "<q", 8)
    made.recorded_again()
    (finding,) = made.findings()
    assert finding.code == Code.POINTERS
    assert f"byte {POINTERS + 8}: sequence 1 should start at 6, not 8" in finding.rule


def test_lengths_that_were_traded_are_found_without_a_digest(made: Made) -> None:
    made.number(f"{WEB}.idx", 34, "<i", 2)
    made.number(f"{WEB}.idx", 38, "<i", 3)
    made.number(f"{WEB}.idx", POINTERS + 8, "<q", 4)
    made.recorded_again()
    (finding,) = made.findings()
    assert finding.code == Code.END
    assert "byte 2: sequence 0 ends with ID 2" in finding.rule


@pytest.mark.parametrize("value", [0, -3, 2**31 - 1])
def test_a_length_that_cannot_be_is_found_without_its_digest(made: Made, value: int) -> None:
    made.number(f"{WEB}.idx", 38, "<i", value)
    made.recorded_again()
    assert Code.LENGTHS in made.codes()


@pytest.mark.parametrize(
    ("entry", "value"), [(0, 1), (1, 2), (2, 0), (3, 3), (6, 3), (6, 5), (5, -1)]
)
def test_wrong_document_indices_are_found_without_their_digest(
    made: Made, entry: int, value: int
) -> None:
    made.number(f"{WEB}.idx", DOCUMENTS + 8 * entry, "<q", value)
    made.recorded_again()
    assert made.codes() == [Code.DOCUMENTS]


@pytest.mark.parametrize(("at", "value"), [(18, 3), (26, 9), (17, 4), (9, 2), (0, 0)])
def test_a_wrong_header_is_found_without_its_digest(made: Made, at: int, value: int) -> None:
    made.number(f"{WEB}.idx", at, "<B", value)
    made.recorded_again()
    assert made.codes() == [Code.HEADER]


def test_an_id_that_is_too_large_is_found_without_its_digest(made: Made) -> None:
    made.number(f"{WEB}.bin", 2, "<H", END + 1)
    made.number(f"{WEB}.bin", 12, "<H", 65_535)
    made.recorded_again()
    (finding,) = made.findings()
    assert finding.code == Code.VOCABULARY
    assert "byte 2: ID 50257 is not in the vocabulary of 50257" in finding.rule
    assert "1 more" in finding.rule


def test_a_negative_id_is_found(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    tasks = task_list(["web"], tokenizer(100_000, 99_999))
    parts = [write_part(store, tasks, 0, {"": [[1, -2]]})]
    files = assemble(tasks, parts, store)
    record = DatasetRecord(tasks.digest, tasks.settings, files, summarize(tasks, parts))
    assert [f.code for f in verify(store, record)] == [Code.VOCABULARY]


def test_a_missing_end_is_found_without_its_digest(made: Made) -> None:
    made.number(f"{WEB}.bin", 8, "<H", 5)
    made.recorded_again()
    (finding,) = made.findings()
    assert finding.code == Code.END
    assert "byte 8: sequence 1 ends with ID 5" in finding.rule


def test_an_end_inside_a_document_is_found_where_the_policy_has_none(tmp_path: Path) -> None:
    for policy, expected in (
        (EndTokenInText.TOKEN, []),
        (EndTokenInText.TEXT, [Code.END_INSIDE]),
        (EndTokenInText.BAD, [Code.END_INSIDE]),
    ):
        made = Made(tmp_path / policy, policy)
        made.number(f"{WEB}.bin", 12, "<H", END)
        made.recorded_again()
        assert made.codes() == expected


def test_a_wrong_count_is_found(made: Made) -> None:
    web, code = made.record.sources
    for counts in (replace(web.counts, documents=7), replace(web.counts, lines=7)):
        made.record = replace(made.record, sources=(replace(web, counts=counts), code))
        assert Code.COUNTS in made.codes()
    made.record = replace(made.record, sources=(code,))
    assert Code.COUNTS in made.codes()


def test_what_is_not_conserved_from_parts_to_files_is_found(made: Made) -> None:
    web, code = made.record.files
    short = replace(web, segments=web.segments[:1])
    turned = replace(web, segments=web.segments[::-1])
    other = replace(web, segments=(replace(web.segments[0], tokens=4), *web.segments[1:]))
    for files in ((web,), (short, code), (turned, code), (web, code, web), (other, code)):
        findings = check_conserved(made.tasks, made.parts, files)
        assert [f.code for f in findings] == [Code.COUNTS]


def test_damage_is_found_wherever_blocks_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for block in (1, 2, 3, 5):
        monkeypatch.setattr("seatrial.dataprep.verification.index.BLOCK", block)
        monkeypatch.setattr(token_checks, "BLOCK", block)
        monkeypatch.setattr(token_checks, "CHUNK", block)
        made = Made(tmp_path / str(block), EndTokenInText.BAD)
        assert made.findings() == []
        made.number(f"{WEB}.bin", 8, "<H", 5)
        made.number(f"{WEB}.bin", 12, "<H", END)
        made.number(f"{WEB}.idx", POINTERS + 16, "<q", 8)
        made.number(f"{WEB}.idx", DOCUMENTS + 8 * 4, "<q", 4)
        made.recorded_again()
        codes = [Code.POINTERS, Code.DOCUMENTS, Code.END, Code.END_INSIDE]
        assert made.codes() == sorted(codes)


def test_many_documents_are_verified_in_blocks(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    tasks = task_list(["web"])
    number = index_file.BLOCK + 10
    part = write_part(store, tasks, 0, {"": [[1]] * number})
    files = assemble(tasks, [part], store)
    record = DatasetRecord(tasks.digest, tasks.settings, files, summarize(tasks, [part]))
    assert verify(store, record) == []
    ids = np.memmap(tmp_path / "web-00000.bin", "<u2", "r+")
    ids[-1] = 3
    ids.flush()
    (end, changed) = sorted(verify(store, record), key=lambda f: f.code)
    assert (end.code, changed.code) == (Code.END, Code.DIGEST)
    assert f"sequence {number - 1} ends" in end.rule


def test_a_record_with_a_path_out_of_the_root_reads_nothing(made: Made, tmp_path: Path) -> None:
    web, code = made.record.files
    outside = tmp_path.parent / "outside.bin"
    outside.write_bytes((tmp_path / f"{WEB}.bin").read_bytes())
    made.record = replace(made.record, files=(replace(web, name="../outside"), code))
    assert made.codes() == [Code.ABSENT, Code.ABSENT]


def test_the_digest_of_a_file_can_be_checked_by_hand(made: Made) -> None:
    data = (made.root / f"{WEB}.bin").read_bytes()
    lines = [f"{len(d)} sha256:{hashlib.sha256(d).hexdigest()}\n" for d in (data[:10], data[10:])]
    expected = "pieces-sha256:" + hashlib.sha256("".join(lines).encode()).hexdigest()
    assert made.record.files[0].tokens_digest == expected
