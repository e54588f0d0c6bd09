# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Decode a sample of prepared documents, and encode them again with the reference tokenizer."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from seatrial.codes.datasets import DatasetCode
from seatrial.dataprep.output.dataset import DataFile, DatasetRecord
from seatrial.dataprep.output.index_file import HEADER_BYTES, token_type
from seatrial.dataprep.output.report import VerificationReport
from seatrial.dataprep.output.stored_index import read_exactly
from seatrial.dataprep.tokenizers.backends import LADDERS
from seatrial.dataprep.tokenizers.encoder import Encoder, open_encoder
from seatrial.findings import Finding, Severity
from seatrial.storage.store import Store

LONGEST = 1 << 16
"""Most tokens of a sampled document; longer ones are skipped."""

_PROBES = ("a", "  two  spaces ", "line\r\n\tend\n", "É e\u0301 ﬁ 日本語 🙂", " <|x|> ## ` '")
"""A tokenizer that returns these texts unchanged is lossless."""


def check_round_trip(store: Store, record: DatasetRecord, file: Path, sample: int) -> list[Finding]:
    """Report differences after decoding and encoding documents.

    A tokenizer that normalizes text may encode its own output differently; differences are then
    warnings instead of errors.
    """
    tokenizer = record.settings.tokenizer
    reference = LADDERS[tokenizer.kind][-1]
    encoder = open_encoder(tokenizer, file, reference, record.settings.end_token_in_text)
    lossless = all(encoder.decode(_ids(encoder, text)) == text for text in _PROBES)
    findings = []
    for data_file in record.files:
        share = -(-sample * data_file.tokens // max(record.tokens, 1))
        report = VerificationReport(data_file.tokens_file)
        for sequence, begin, ids in _sampled(store, data_file, share):
            again = _ids(encoder, encoder.decode(ids))
            if again != ids:
                at = next(
                    (i for i, (a, b) in enumerate(zip(ids, again, strict=False)) if a != b),
                    min(len(ids), len(again)),
                )
                rule = (
                    f"byte {begin + at * data_file.token_bytes}: sequence {sequence}, decoded and "
                    f"encoded again, has {again[at : at + 5]} here instead of {ids[at : at + 5]}."
                )
                report.add(
                    DatasetCode.ROUND_TRIP,
                    rule,
                    ids[at : at + 5],
                    fix="Check that this is the tokenizer that the data was prepared with.",
                    severity=Severity.ERROR if lossless else Severity.WARNING,
                )
        findings += report.findings()
    return findings


def _ids(encoder: Encoder, text: str) -> list[int]:
    ids: list[int] = encoder.encode([text])[0].tolist()
    return ids


def _sampled(store: Store, file: DataFile, number: int) -> Iterator[tuple[int, int, Sequence[int]]]:
    """Yield sequences across a file: number, first byte, and IDs without the end token."""
    header = file.header
    stored = token_type(file.token_bytes)
    for sequence in _spread(header.sequences, number):
        length = int(_number(store, file, HEADER_BYTES + 4 * sequence, "<i4"))
        begin = int(_number(store, file, header.pointers_at + 8 * sequence, "<i8"))
        if not 1 < length <= LONGEST:
            continue
        with closing(store.open_reader(file.tokens_file, begin)) as stream:
            data = read_exactly(stream, (length - 1) * file.token_bytes)
        yield sequence, begin, np.frombuffer(data, stored).tolist()


def _spread(total: int, number: int) -> list[int]:
    """Return that many evenly spaced positions, including the first and the last."""
    if number >= total:
        return list(range(total))
    return sorted({round(place) for place in np.linspace(0, total - 1, max(number, 1))})


def _number(store: Store, file: DataFile, at: int, stored: str) -> int:
    with closing(store.open_reader(file.index_file, at)) as stream:
        width = np.dtype(stored).itemsize
        return int(np.frombuffer(read_exactly(stream, width), stored)[0])
