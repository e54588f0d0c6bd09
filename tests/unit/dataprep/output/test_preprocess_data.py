# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Byte for byte what Megatron-LM's preprocess_data.py writes, by its recorded digests."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from seatrial.codes.datasets import DatasetCode
from seatrial.dataprep.output.assemble import assemble
from seatrial.dataprep.output.dataset import DatasetRecord, summarize
from seatrial.dataprep.tokenizers.encoder import open_encoder
from seatrial.dataprep.verification.verify import verify
from tests.unit.dataprep.gpt2 import gpt2_file
from tests.unit.dataprep.made_parts import write_part
from tests.unit.dataprep.prepared_corpus import DATA, prepared, split_corpus

RECORDED = json.loads((DATA / "preprocess_data.json").read_text())


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = gpt2_file(tmp_path_factory.mktemp("gpt2"))
    assert sha256(path) == RECORDED["tokenizer_sha256"]
    return path


@pytest.mark.parametrize("backend", ["tokenizers", "gigatoken", "fastokens"])
@pytest.mark.parametrize("pieces", [1, 7])
def test_the_bytes_are_those_of_preprocess_data(
    tmp_path: Path, tokenizer: Path, backend: str, pieces: int
) -> None:
    pytest.importorskip(backend)
    assert sha256(DATA / "corpus.jsonl") == RECORDED["input_sha256"]
    files = split_corpus(tmp_path, pieces)
    store, tasks, records = prepared(tmp_path / "out", tokenizer, files, backend)
    (file,) = assemble(tasks, records, store)
    assert (file.documents, file.empty) == (RECORDED["documents"], RECORDED["empty"])
    assert sha256(tmp_path / "out" / file.tokens_file) == RECORDED["bin_sha256"]
    assert sha256(tmp_path / "out" / file.index_file) == RECORDED["idx_sha256"]


def test_the_reference_reads_back_what_was_prepared(tmp_path: Path, tokenizer: Path) -> None:
    files = split_corpus(tmp_path, 3)
    store, tasks, records = prepared(tmp_path, tokenizer, files, "tokenizers", "meta.set")
    assembled = assemble(tasks, records, store)
    assert {f.domain for f in assembled} == {"books", "Web pages", "code/c++"}
    summary = summarize(tasks, records)
    record = DatasetRecord(tasks.digest, tasks.settings, assembled, summary)
    assert verify(store, record, tokenizer_file=tokenizer, sample=1000) == []
    other = replace(record.settings.tokenizer, end_of_document=50_255)
    wrong = replace(record, settings=replace(record.settings, tokenizer=other))
    assert {f.code for f in verify(store, wrong)} == {DatasetCode.END}


def test_tokens_that_no_text_has_are_found(tmp_path: Path, tokenizer: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    raw.write_text('{"text": "hello hello"}\n')
    store, tasks, _ = prepared(tmp_path / "out", tokenizer, [raw], "tokenizers")
    encoder = open_encoder(tasks.settings.tokenizer, tokenizer, "tokenizers")
    # The letters one by one give the same text, and the tokenizer would never cut it so.
    letters = [int(encoder.encode([letter])[0][0]) for letter in "hello"]
    damaged = write_part(store, tasks, 0, {"": [letters]}, attempt="other")
    (file,) = assemble(tasks, [damaged], store)
    record = DatasetRecord(tasks.digest, tasks.settings, (file,), summarize(tasks, [damaged]))
    findings = verify(store, record, tokenizer_file=tokenizer)
    assert [finding.code for finding in findings] == [DatasetCode.ROUND_TRIP]
    assert "sequence 0" in findings[0].rule
