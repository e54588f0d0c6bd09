# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Parquet files that are small and become large: no batch of them is."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seatrial.dataprep.documents.parquet import rows_at_once
from seatrial.dataprep.documents.reading import read_documents
from seatrial.dataprep.tasks.task_list import InputFile, InputFormat, SourceSettings

LONG = "word " * 60_000
REPEATED = pa.DictionaryArray.from_arrays(pa.array([0] * 200, pa.int32()), pa.array([LONG]))


def stored(columns: dict[str, Any], **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink, **options)
    return sink.getvalue()


def sizes(data: bytes, field: str, domain: str | None = None) -> list[int]:
    """Characters of every batch."""
    file = InputFile("a.parquet", len(data), "v", InputFormat.PARQUET)
    source = SourceSettings("s", field, domain)
    batches = read_documents(file, source, lambda _: io.BytesIO(data))
    return [sum(map(len, batch.texts)) for batch in batches]


@pytest.mark.parametrize(
    ("columns", "field", "options"),
    [
        ({"text": REPEATED}, "text", {}),
        ({"text": [LONG] * 200}, "text", {"compression": "zstd"}),
        ({"text": [LONG] * 200}, "text", {"compression": "none", "data_page_version": "2.0"}),
        ({"meta": pa.array([{"text": LONG}] * 200)}, "meta.text", {}),
        (
            {"text": [LONG] * 200},
            "text",
            {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"},
        ),
    ],
)
def test_a_value_that_is_repeated_makes_no_large_batch(
    columns: dict[str, Any], field: str, options: dict[str, Any]
) -> None:
    data = stored(columns, **options)
    assert len(data) < 1 << 20
    found = sizes(data, field)
    assert sum(found) == 200 * len(LONG)
    assert max(found) <= 32 << 20


def test_a_long_domain_counts_too() -> None:
    data = stored({"text": ["a"] * 200, "d": REPEATED})
    group = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    assert rows_at_once(io.BytesIO(data), group, ["text"]) == 64
    assert rows_at_once(io.BytesIO(data), group, ["text", "d"]) * len(LONG) <= 32 << 20


def test_usual_rows_are_read_by_the_dozen() -> None:
    texts = [f"{number} " * 500 for number in range(1000)]
    data = stored({"text": texts})
    # All of them are in a dictionary of 2 MB, and any of them could be that long.
    assert len(sizes(data, "text")) < 1000 / 8
    plain = stored({"text": texts}, use_dictionary=False)
    assert len(sizes(plain, "text")) == -(-1000 // 64)
