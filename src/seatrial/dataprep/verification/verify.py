# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Verify a data set by reading all of it again, in bounded memory.

Only the record comes from the preparation. Sizes, headers, pointers, document indices, IDs,
document ends, counts and digests are read from the files and compared with it.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from seatrial.codes.datasets import DatasetCode
from seatrial.dataprep.output.assemble import THREADS
from seatrial.dataprep.output.dataset import DataFile, DatasetRecord
from seatrial.dataprep.output.quarantine import check_quarantine
from seatrial.dataprep.output.report import VerificationReport
from seatrial.dataprep.output.stored_index import ShortReadError
from seatrial.dataprep.output.tokenizer_copy import check_copy
from seatrial.dataprep.tasks.records import RECORD_FILE
from seatrial.dataprep.tasks.task_list import TaskSettings
from seatrial.dataprep.verification.index import check_index
from seatrial.dataprep.verification.round_trip import check_round_trip
from seatrial.dataprep.verification.stopping import Readable, Stoppable
from seatrial.dataprep.verification.tokens import check_tokens
from seatrial.findings import Finding
from seatrial.storage.store import Store

SAMPLE = 64
"""Documents to decode and encode again."""

Progress = Callable[[int], None]
"""Receives the token bytes that were checked since the last call."""


def verify(
    store: Store,
    record: DatasetRecord,
    *,
    tokenizer_file: Path | None = None,
    sample: int = SAMPLE,
    progress: Progress | None = None,
) -> list[Finding]:
    """Return all problems of a data set; empty if it is intact.

    Args:
        store: The store that contains it.
        record: Its record.
        tokenizer_file: The tokenizer file; None to skip decoding documents.
        sample: Documents to decode and encode again.
        progress: Receives the progress.
    """
    findings = check_counts(record)
    sizes = {file.path: file.size for file in store.list() if file.path in _paths(record)}
    reading = Stoppable(store)
    with ThreadPoolExecutor(max(1, min(THREADS, len(record.files)))) as pool:
        checked = pool.map(lambda file: _file(reading, file, record.settings, sizes), record.files)
        try:
            for file, found in zip(record.files, checked, strict=True):
                findings += found
                if progress is not None:
                    progress(file.tokens_size)
        except BaseException:
            # Otherwise leaving the pool would wait for running reads.
            reading.stop()
            raise
    findings += check_quarantine(store, record)
    findings += check_copy(store, record.tokenizer_files or {})
    if tokenizer_file is not None and not findings:
        findings += check_round_trip(store, record, tokenizer_file, sample)
    return findings


def _paths(record: DatasetRecord) -> set[str]:
    return {path for file in record.files for path in (file.tokens_file, file.index_file)}


def _file(
    store: Readable, file: DataFile, settings: TaskSettings, sizes: dict[str, int]
) -> list[Finding]:
    """Check one pair; skips checks that a wrong size or index makes meaningless."""
    wanted = {file.tokens_file: file.tokens_size, file.index_file: file.header.size}
    findings = []
    for path, size in wanted.items():
        report = VerificationReport(path)
        if path not in sizes:
            report.add(DatasetCode.ABSENT, "the file is missing.")
        elif sizes[path] != size:
            rule = f"the file has {sizes[path]} bytes; it should have {size}."
            report.add(DatasetCode.SIZE, rule, sizes[path])
        findings += report.findings()
    if findings:
        return findings
    try:
        findings = check_index(store, file)
        unsound = {DatasetCode.HEADER, DatasetCode.LENGTHS}
        if not any(finding.code in unsound for finding in findings):
            findings += check_tokens(store, file, settings)
    except (ShortReadError, OSError) as error:
        report = VerificationReport(file.name)
        said = str(error) or "it ended too early"
        report.add(DatasetCode.ABSENT, f"the file cannot be read: {said}.")
        findings += report.findings()
    return findings


def check_counts(record: DatasetRecord) -> list[Finding]:
    """Check that the counts of a record add up: lines to documents, documents to files."""
    report = VerificationReport(RECORD_FILE)
    for source in record.sources:
        files = [file for file in record.files if file.source == source.name]
        counts = source.counts
        documents = sum(file.documents for file in files)
        if documents != counts.documents:
            rule = (
                f"source {source.name} produced {counts.documents} documents, but its files "
                f"contain {documents}."
            )
            report.add(DatasetCode.COUNTS, rule, documents)
        used = counts.documents + counts.dropped + sum(counts.bad.values())
        if counts.lines != used:
            rule = f"source {source.name} has {counts.lines} lines; {used} are accounted for."
            report.add(DatasetCode.COUNTS, rule, used)
    known = {source.name for source in record.sources}
    for file in record.files:
        if file.source not in known:
            report.add(DatasetCode.COUNTS, f"{file.name} belongs to no source.", file.source)
        if file.empty > file.documents:
            report.add(DatasetCode.COUNTS, f"{file.name} has more empty documents than documents.")
        if file.token_bytes != record.settings.tokenizer.token_bytes:
            rule = f"{file.name} has {file.token_bytes} bytes per token; its tokenizer differs."
            report.add(DatasetCode.COUNTS, rule, file.token_bytes)
    return report.findings()
