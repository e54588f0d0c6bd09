# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of an index file: they read every byte and compare it with the record."""

from collections.abc import Iterator
from contextlib import closing

import numpy as np

from seatrial.codes.datasets import DatasetCode
from seatrial.dataprep.output.dataset import DataFile
from seatrial.dataprep.output.index_file import BLOCK, HEADER_BYTES, parse_header
from seatrial.dataprep.output.report import VerificationReport
from seatrial.dataprep.output.stored_index import Numbers, arrays, read_exactly
from seatrial.dataprep.verification.stopping import Readable
from seatrial.errors import FindingsError
from seatrial.findings import Finding
from seatrial.storage.digests import Hasher, hasher_like, matches


def check_index(store: Readable, file: DataFile) -> list[Finding]:
    """Check the index of a file whose size is correct."""
    report = VerificationReport(file.index_file)
    hasher = hasher_like(file.index_digest)
    with closing(store.open_reader(file.index_file)) as stream:
        head = read_exactly(stream, HEADER_BYTES)
        hasher.update(head)
        try:
            header = parse_header(head, file.index_file)
        except FindingsError as error:
            return list(error.findings)
        if header != file.header:
            rule = f"its header states {header}; the record states {file.header}."
            report.add(DatasetCode.HEADER, rule, header)
            return report.findings()
        _check_lengths(report, file, arrays(stream, header.sequences, "<i4", BLOCK, hasher))
        _check_pointers(report, file, store, arrays(stream, header.sequences, "<i8", BLOCK, hasher))
        _check_documents(report, file, arrays(stream, header.documents + 1, "<i8", BLOCK, hasher))
    _check_digest(report, file, hasher)
    return report.findings()


def _check_lengths(report: VerificationReport, file: DataFile, blocks: Iterator[Numbers]) -> None:
    """Check that every sequence has tokens, and that they add up to those of the file."""
    total = place = 0
    for block in blocks:
        total += int(block.sum(dtype=np.int64))
        wrong = np.flatnonzero(block < 1)
        if wrong.size:
            at, value = place + int(wrong[0]), int(block[wrong[0]])
            byte = HEADER_BYTES + 4 * at
            rule = f"byte {byte}: sequence {at} has a length of {value} tokens."
            report.add(DatasetCode.LENGTHS, rule, value, number=wrong.size)
        place += block.size
    if total != file.tokens:
        rule = f"its lengths add up to {total} tokens; the file has {file.tokens}."
        report.add(DatasetCode.LENGTHS, rule, total)


def _check_pointers(
    report: VerificationReport, file: DataFile, store: Readable, blocks: Iterator[Numbers]
) -> None:
    """Check that every sequence starts where the previous one ends."""
    header = file.header
    begin = place = 0
    with closing(store.open_reader(file.index_file, HEADER_BYTES)) as stream:
        lengths = arrays(stream, header.sequences, "<i4", BLOCK)
        for pointers, block in zip(blocks, lengths, strict=True):
            ends = np.cumsum(block, dtype=np.int64) * file.token_bytes + begin
            expected = np.empty_like(ends)
            expected[0] = begin
            expected[1:] = ends[:-1]
            wrong = np.flatnonzero(pointers != expected)
            if wrong.size:
                first = int(wrong[0])
                at, value = place + first, int(pointers[first])
                byte = header.pointers_at + 8 * at
                rule = f"byte {byte}: sequence {at} should start at {expected[first]}, not {value}."
                report.add(DatasetCode.POINTERS, rule, value, number=wrong.size)
            begin = int(ends[-1])
            place += block.size


def _check_documents(report: VerificationReport, file: DataFile, blocks: Iterator[Numbers]) -> None:
    """Check that indices run from 0 to the number of sequences, with at most one per document."""
    header = file.header
    before, place, empty = 0, 0, -1
    for block in blocks:
        steps = np.diff(block, prepend=before)
        empty += int(np.count_nonzero(steps == 0))
        wrong = np.flatnonzero((steps < 0) | (steps > 1))
        if place == 0 and block[0] != 0:
            wrong = np.union1d(wrong, [0])
        if wrong.size:
            at, value = place + int(wrong[0]), int(block[wrong[0]])
            byte = header.documents_at + 8 * at
            rule = f"byte {byte}: the first sequence of document {at} cannot be {value}."
            report.add(DatasetCode.DOCUMENTS, rule, value, number=wrong.size)
        before = int(block[-1])
        place += block.size
    if before != header.sequences:
        rule = f"its documents end at sequence {before}, but there are {header.sequences}."
        report.add(DatasetCode.DOCUMENTS, rule, before)
    elif empty != file.empty:
        rule = f"{empty} of its documents are empty; the record states {file.empty}."
        report.add(DatasetCode.DOCUMENTS, rule, empty)


def _check_digest(report: VerificationReport, file: DataFile, hasher: Hasher) -> None:
    if not matches(hasher, file.index_digest):
        rule = f"its digest differs from the recorded {file.index_digest}."
        report.add(DatasetCode.DIGEST, rule, hasher.hexdigest())
