# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The reader of data: pairs that are whole, cut short, of another format or not to be seen."""

import gzip
import json
import struct
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from seatrial.checks.probe_facts import (
    CorpusFacts,
    PairFacts,
    Pointer,
    SplitFacts,
    TokenizerFacts,
    Unknown,
)
from seatrial.checks.probes import data
from seatrial.checks.probes.data import DataReader
from seatrial.codes.data import BadInputError, InputCode
from seatrial.dataprep.output.mds_splits import Cut, cut
from seatrial.dataprep.tokenizers.unstated_end import end_findings
from seatrial.findings import Severity
from seatrial.storage.directory import LocalStore
from tests.unit.dataprep.output.test_mds import prepared

TOKENIZER = {
    "version": "1.0",
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "<|endoftext|>": 2}, "merges": []},
    "added_tokens": [{"id": 2, "content": "<|endoftext|>", "special": True}],
}


def write_pair(prefix: Path, lengths: list[int], *, end: int = 2, wrong: int | None = None) -> None:
    sizes = np.array(lengths, "<i4")
    starts = ((np.cumsum(sizes) - sizes) * 2).astype("<i8")
    if wrong is not None:
        starts[wrong] = -5
    documents = np.arange(len(lengths) + 1, dtype="<i8")
    head = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 8, len(lengths), len(documents))
    parts = (sizes.tobytes(), starts.tobytes(), documents.tobytes())
    prefix.with_name(f"{prefix.name}.idx").write_bytes(head + b"".join(parts))
    tokens = np.concatenate([[*[1] * (n - 1), end] for n in lengths]).astype("<u2")
    prefix.with_name(f"{prefix.name}.bin").write_bytes(tokens.tobytes())


@pytest.fixture
def tokenizer(tmp_path: Path) -> str:
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(TOKENIZER))
    return str(file)


def test_a_whole_pair(tmp_path: Path, tokenizer: str) -> None:
    write_pair(tmp_path / "web", [5, 7, 3])
    facts = DataReader(tokenizer).pair(str(tmp_path / "web"))
    assert isinstance(facts, PairFacts)
    assert (facts.sequences, facts.documents, facts.tokens, facts.token_bytes) == (3, 3, 15, 2)
    assert (facts.largest_id, facts.ends_documents, facts.wrong_pointer) == (2, True, None)
    assert (facts.bin_bytes, facts.idx_bytes) == (30, 34 + 36 + 32)


def test_documents_without_their_end(tmp_path: Path, tokenizer: str) -> None:
    write_pair(tmp_path / "web", [5, 7], end=1)
    facts = DataReader(tokenizer).pair(str(tmp_path / "web"))
    assert isinstance(facts, PairFacts)
    assert facts.ends_documents is False


def test_a_wrong_pointer_and_a_short_file(tmp_path: Path, tokenizer: str) -> None:
    write_pair(tmp_path / "web", [5, 7, 3], wrong=1)
    reader = DataReader(tokenizer)
    facts = reader.pair(str(tmp_path / "web"))
    assert isinstance(facts, PairFacts)
    assert facts.wrong_pointer == Pointer(1, -5)
    write_pair(tmp_path / "cut", [5, 7, 3])
    index = tmp_path / "cut.idx"
    index.write_bytes(index.read_bytes()[:50])
    facts = reader.pair(str(tmp_path / "cut"))
    assert isinstance(facts, PairFacts)
    assert facts.idx_bytes == 50


def test_an_index_of_another_format(tmp_path: Path, tokenizer: str) -> None:
    write_pair(tmp_path / "web", [5])
    index = tmp_path / "web.idx"
    index.write_bytes(b"TNTIDX\0\0" + index.read_bytes()[8:])
    facts = DataReader(tokenizer).pair(str(tmp_path / "web"))
    assert isinstance(facts, PairFacts)
    assert facts.begins_with.startswith("TNTIDX")


def test_what_is_absent_and_what_cannot_be_seen(tmp_path: Path, tokenizer: str) -> None:
    reader = DataReader(tokenizer, mount="/no/such/volume")
    assert reader.pair(str(tmp_path / "web")) is Unknown.ABSENT
    assert reader.pair("/no/such/volume/web") is Unknown.UNSEEN
    assert reader.corpus("/no/such/volume/raw", None) is Unknown.UNSEEN
    assert reader.corpus(str(tmp_path / "raw"), None) is Unknown.ABSENT
    assert reader.tokenizer(str(tmp_path / "absent.json")) is Unknown.ABSENT


def test_a_pair_nearby_is_found(tmp_path: Path, tokenizer: str) -> None:
    write_pair(tmp_path / "web_text_document", [5])
    near = DataReader(tokenizer).pairs_near(str(tmp_path / "web"))
    assert near[0] == str(tmp_path / "web_text_document")


def test_a_hub_that_is_silent_is_asked_once_for_all_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def silent(address: str) -> NoReturn:
        asked.append(address)
        raise BadInputError(InputCode.TOKENIZER, address, "does not answer.", "Try again.")

    monkeypatch.setattr(data, "describe", silent)
    reader = DataReader("hf://gpt2")
    for name in ("one", "two", "three"):
        write_pair(tmp_path / name, [5])
        assert isinstance(reader.pair(str(tmp_path / name)), PairFacts)
    assert reader.tokenizer("hf://gpt2") is Unknown.UNSEEN
    assert asked == ["hf://gpt2"]


def test_an_end_that_training_would_not_know(tmp_path: Path) -> None:
    """The engine's loader does not guess, and stops with a TypeError."""
    vocabulary = {"a": 0, "</s>": 1}
    content = {"model": {"vocab": vocabulary}, "added_tokens": [{"id": 1, "content": "</s>"}]}
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps(content))

    def unstated(address: Path) -> str:
        facts = DataReader("").tokenizer(str(address))
        assert isinstance(facts, TokenizerFacts)
        return facts.unstated_end

    assert unstated(file) == unstated(tmp_path) == "</s>"
    (finding,) = end_findings(str(tmp_path))
    assert finding.severity is Severity.WARNING
    assert '"eos_token": "</s>"' in finding.fix
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))
    assert unstated(file) == ""
    assert end_findings(str(tmp_path)) == []
    # A loader of transformers 4 wants a class too.
    (finding,) = end_findings(str(tmp_path), "LLM Foundry")
    assert '"tokenizer_class": "PreTrainedTokenizerFast"' in finding.fix
    facts = DataReader("").tokenizer(str(file))
    assert isinstance(facts, TokenizerFacts)
    assert not facts.names_class
    both = {"eos_token": "</s>", "tokenizer_class": "PreTrainedTokenizerFast"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(both))
    assert end_findings(str(tmp_path), "LLM Foundry") == []
    # A class of its own may bring the token.
    (tmp_path / "tokenizer_config.json").unlink()
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    assert unstated(tmp_path) == ""


def test_a_tokenizer_and_a_corpus(tmp_path: Path, tokenizer: str) -> None:
    reader = DataReader(tokenizer)
    facts = reader.tokenizer(tokenizer)
    assert isinstance(facts, TokenizerFacts)
    assert (facts.entries, facts.ends_documents, len(facts.fingerprint)) == (3, True, 64)
    raw = tmp_path / "raw"
    raw.mkdir()
    with gzip.open(raw / "a.jsonl.gz", "wt") as stream:
        stream.write(json.dumps({"content": "x", "repo": "y"}) + "\n")
    found = reader.corpus(str(raw), "*.gz")
    size = (raw / "a.jsonl.gz").stat().st_size
    tokens = round(3 * size / 4)
    assert found == CorpusFacts(("a.jsonl.gz",), 1, ("content", "repo"), rough_tokens=tokens)
    assert reader.corpus(str(raw), "*.parquet") == CorpusFacts(("a.jsonl.gz",), 0, ())


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", b"no json\nat all\n", "none of the first 2 lines of a.jsonl is a JSON object"),
        ("a.jsonl", b"no json", "the first line of a.jsonl is not a JSON object"),
        ("a.jsonl", b"", "its only file is empty"),
        ("a.jsonl", b"\n\n", "a.jsonl has no text"),
        ("a.parquet", b"PAR0 and more", "a.parquet is not a Parquet file"),
        (
            "a.jsonl.gz",
            b"{}",
            "a.jsonl.gz is truncated, or its compression does not match its name",
        ),
        (
            "a.jsonl.zst",
            b"{}",
            "a.jsonl.zst is truncated, or its compression does not match its name",
        ),
        # A bad line may be an accident, and a line of a megabyte may be a document.
        ("a.jsonl", b'no json\n{"text": "x"}\n', ""),
        ("a.jsonl", b'{"text": "' + b"x" * (1 << 20) + b'"}\n', ""),
        ("a.txt", b"no json", ""),
    ],
)
def test_why_a_corpus_cannot_be_read(
    tmp_path: Path, tokenizer: str, name: str, content: bytes, said: str
) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / name).write_bytes(content)
    facts = DataReader(tokenizer).corpus(str(raw), None)
    assert isinstance(facts, CorpusFacts)
    assert facts.unreadable == said


def test_fields_that_hold_no_text(tmp_path: Path, tokenizer: str) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "a.jsonl").write_text('{"text": 5, "body": "x", "meta": {"id": 1}}\n')
    parquet.write_table(pa.table({"text": [1], "body": ["x"]}), raw / "b.parquet")
    reader = DataReader(tokenizer)
    tokens = round((raw / "a.jsonl").stat().st_size / 4)
    expected = CorpusFacts(
        ("a.jsonl", "b.parquet"), 1, ("text", "body", "meta"), ("text",), rough_tokens=tokens
    )
    assert reader.corpus(str(raw), "*.jsonl") == expected
    found = reader.corpus(str(raw), "*.parquet")
    assert isinstance(found, CorpusFacts)
    assert (found.fields, found.other_fields) == (("text", "body"), ("text",))


def test_half_a_pair_an_old_index_and_no_tokenizer(tmp_path: Path, tokenizer: str) -> None:
    reader = DataReader(tokenizer)
    for name in ("lone", "old"):
        write_pair(tmp_path / name, [5])
    (tmp_path / "lone.idx").rename(tmp_path / "other.idx")
    assert reader.pair(str(tmp_path / "lone")) is Unknown.NO_IDX
    assert reader.pair(str(tmp_path / "other")) is Unknown.NO_BIN
    index = tmp_path / "old.idx"
    index.write_bytes(index.read_bytes()[:9] + struct.pack("<Q", 7) + index.read_bytes()[17:])
    facts = reader.pair(str(tmp_path / "old"))
    assert isinstance(facts, PairFacts)
    assert facts.index_version == 7
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    assert reader.tokenizer(str(bad)) is Unknown.UNREADABLE


def mds(root: Path, length: int = 8) -> Path:
    """A split that preparation has cut."""
    cut(LocalStore(root), prepared(root), Cut("mds", "corpus", length, (80.0, 20.0, 0.0)))
    return root / "mds" / "train"


@pytest.mark.parametrize("length", [8, 70])
def test_a_split_in_mds(tmp_path: Path, length: int) -> None:
    train = mds(tmp_path, length)
    samples = round(137 // length * 0.8)
    reader = DataReader("")
    assert reader.split(str(train)) == SplitFacts(samples, length)
    assert reader.split(str(tmp_path / "nowhere")) is Unknown.ABSENT
    assert reader.split(str(tmp_path)) is Unknown.ABSENT


def test_long_samples_write_their_length_in_two_bytes(tmp_path: Path) -> None:
    root = tmp_path / "long"
    cut(LocalStore(root), prepared(root, (900,)), Cut("mds", "corpus", 300, (1.0, 0.0, 0.0)))
    assert DataReader("").split(str(root / "mds" / "train")) == SplitFacts(3, 300)


def test_what_is_wrong_with_a_split(tmp_path: Path) -> None:
    train = mds(tmp_path)
    shard, index = train / "shard.00000.mds", train / "index.json"
    shard.write_bytes(shard.read_bytes()[:-1])
    assert DataReader("").split(str(train)) == SplitFacts(14, other_size=shard.name)
    shard.unlink()
    assert DataReader("").split(str(train)) == SplitFacts(14, absent=shard.name)
    index.write_text("[]")
    assert DataReader("").split(str(train)) is Unknown.UNREADABLE


def test_of_samples_that_others_wrote_nothing_wrong_is_said(tmp_path: Path) -> None:
    """Packed shards, and tokens as bytes, are what LLM Foundry reads too."""
    train = mds(tmp_path)
    index = json.loads((train / "index.json").read_text())
    shard = index["shards"][0]
    (train / "shard.00000.mds").rename(train / "shard.00000.mds.zstd")
    size = (train / "shard.00000.mds.zstd").stat().st_size
    shard["zip_data"] = {"basename": "shard.00000.mds.zstd", "bytes": size, "hashes": {}}
    shard["raw_data"]["bytes"] *= 2
    shard["column_encodings"] = ["bytes"]
    (train / "index.json").write_text(json.dumps(index))
    assert DataReader("").split(str(train)) == SplitFacts(14)
