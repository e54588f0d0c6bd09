# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Readers that lose documents are found out: lines are counted apart from reading them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seatrial.codes.data import BadInputError, InputCode
from seatrial.dataprep.documents import archive, parquet, reading
from seatrial.dataprep.documents import text as plain_text
from seatrial.dataprep.documents.batches import DocumentBatch
from tests.unit.dataprep.kernel_runs import (
    counts_add_up,
    jsonl,
    listed,
    packed,
    run,
    tarred,
    written,
)

TEXTS = [f"text {number}" for number in range(10)]


def stored(name: str, folder: Path) -> bytes:
    if name == "a.parquet":
        pq.write_table(pa.table({"text": TEXTS}), folder / "made")
        return (folder / "made").read_bytes()
    lines = jsonl([{"text": text} for text in TEXTS])
    # Blank lines are read the slow way, and are no lines.
    return packed(b"\n" + lines + b" \r\n\n" if "blank" in name else lines, name)


def losing(
    reader: Callable[..., Iterator[DocumentBatch]], whole: bool
) -> Callable[..., Iterator[DocumentBatch]]:
    """A reader that drops every third document, or every batch."""

    def read(*arguments: Any) -> Iterator[DocumentBatch]:
        for batch in reader(*arguments):
            if not whole:
                yield replace(batch, texts=[t for i, t in enumerate(batch.texts) if i % 3 != 2])

    return read


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("name", ["a.jsonl", "a-blank.jsonl.zst", "a.parquet"])
def test_a_reader_that_loses_documents_is_found(
    name: str, whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = listed([written(tmp_path, name, stored(name, tmp_path))])
    ran = run(tasks, tmp_path / "good")
    counts_add_up(ran)
    assert ran.record.counts.lines == len(TEXTS)
    module, reader = (
        (parquet, "read_parquet") if name == "a.parquet" else (reading, "read_json_lines")
    )
    monkeypatch.setattr(module, reader, losing(getattr(module, reader), whole))
    with pytest.raises(BadInputError) as caught:
        run(tasks, tmp_path / "bad")
    (finding,) = caught.value.findings
    assert finding.code == InputCode.LOST
    assert "10 lines" in finding.rule
    assert finding.where.file.endswith(name)
    assert not [path for path in (tmp_path / "bad").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("name", "data", "module"),
    [("a.txt", b"text", plain_text), ("a.tar", tarred([("1.txt", b"text")]), archive)],
)
def test_a_text_that_is_lost_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes, module: ModuleType
) -> None:
    tasks = listed([written(tmp_path, name, data)])
    assert run(tasks, tmp_path / "good").record.counts.lines == 1
    monkeypatch.setattr(module, "add_text", lambda *_: None)
    with pytest.raises(BadInputError) as caught:
        run(tasks, tmp_path / "bad")
    assert caught.value.findings[0].code == InputCode.LOST
