# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The list of all bad lines of a data set with their locations, in one file."""

from collections.abc import Callable, Iterable, Mapping

from seatrial.codes.data import InputCode
from seatrial.codes.datasets import DatasetCode
from seatrial.dataprep.output.assemble import DamagedPartsError
from seatrial.dataprep.output.dataset import DatasetRecord
from seatrial.dataprep.output.report import VerificationReport
from seatrial.dataprep.tasks.records import Counts, PartRecord
from seatrial.dataprep.tasks.task_list import TaskList
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where
from seatrial.storage.digests import digest_text, hasher_like, matches, new_hasher
from seatrial.storage.store import Store

QUARANTINE_FILE = "quarantine.jsonl"
"""Path of the list below the root of the output."""
_CHUNK = 1 << 20


def collect_quarantine(
    store: Store, tasks: TaskList, records: Mapping[int, PartRecord]
) -> tuple[str, str] | tuple[None, None]:
    """Concatenate the lists of all tasks, in the order of the tasks.

    Returns:
        Path and digest of the list; None for both if there are no bad lines.

    Raises:
        DamagedPartsError: The list of a task differs from its record.
    """
    lists = [record for task in tasks.tasks if (record := records[task.number]).counts.bad]
    if not lists:
        return None, None
    whole = new_hasher()
    with store.open_writer(QUARANTINE_FILE) as out:

        def take(data: bytes) -> None:
            whole.update(data)
            out.write(data)

        for record in lists:
            trouble = _differs(
                store,
                record.quarantine_file,
                record.quarantine_digest,
                sum(record.counts.bad.values()),
                take,
            )
            if trouble is not None:
                rule = f"{trouble[1]} It belongs to task {record.task}."
                fix = "Run seatrial data prepare again: only that task runs again."
                where = Where(file=record.quarantine_file or "")
                finding = Finding(DatasetCode.PART, Severity.ERROR, where, rule, "", fix)
                raise DamagedPartsError([finding], [record.task])
    return QUARANTINE_FILE, digest_text(whole)


def check_quarantine(store: Store, record: DatasetRecord) -> list[Finding]:
    """Check the list of a data set's bad lines."""
    bad = sum(number for source in record.sources for number in source.counts.bad.values())
    if not bad:
        return []
    report = VerificationReport(record.quarantine_file or QUARANTINE_FILE)
    trouble = _differs(store, record.quarantine_file, record.quarantine_digest, bad)
    if trouble is not None:
        report.add(*trouble)
    return report.findings()


def _differs(
    store: Store,
    path: str | None,
    digest: str | None,
    lines: int,
    take: Callable[[bytes], None] | None = None,
) -> tuple[DatasetCode, str] | None:
    """Describe how a list differs from its record; None if it matches."""
    hasher = hasher_like(digest) if digest else new_hasher()
    found = 0
    try:
        if path is None:
            raise FileNotFoundError
        with store.open_reader(path) as stream:
            while data := stream.read(_CHUNK):
                hasher.update(data)
                found += data.count(b"\n")
                if take is not None:
                    take(data)
    except FileNotFoundError:
        return DatasetCode.ABSENT, f"the list of the {lines:,} bad lines is missing."
    if found != lines:
        return (
            DatasetCode.COUNTS,
            f"the list has {found:,} lines; the record states {lines:,} bad lines.",
        )
    if digest and not matches(hasher, digest):
        return DatasetCode.DIGEST, f"the digest of the list of bad lines differs from {digest}."
    return None


_FIELD = "data.preparation.largest_bad_share"


def refuse_bad_tasks(tasks: TaskList, records: Iterable[PartRecord]) -> None:
    """Raise FindingsError if a finished task has more bad lines than the limit allows now."""
    share = tasks.settings.largest_bad_share
    found = [
        _finding(tasks.tasks[record.task].inputs[0].address, record.counts, share)
        for record in records
        if _is_over(record.counts, share)
    ]
    if found:
        raise FindingsError(found)


def refuse_bad_sources(record: DatasetRecord, share: float) -> None:
    """Raise FindingsError if a source of a data set has more bad lines than the limit allows now.

    The tasks are deleted by then. If each task is within the limit, so is the source.
    """
    found = [
        _finding(f"source {source.name}", source.counts, share)
        for source in record.sources
        if _is_over(source.counts, share)
    ]
    if found:
        raise FindingsError(found)


def _is_over(counts: Counts, share: float) -> bool:
    return sum(counts.bad.values()) > share * counts.lines


def _finding(where: str, counts: Counts, share: float) -> Finding:
    bad = sum(counts.bad.values())
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(counts.bad.items()))
    rule = (
        f"{bad:,} of {counts.lines:,} lines are bad ({reasons}), more than the allowed share of "
        f"{share:g}; the data was prepared with a different limit."
    )
    fix = f"Raise {_FIELD}, or fix the lines and prepare the data again."
    value = f"{bad / counts.lines:.2g}"
    return Finding(InputCode.BAD_SHARE, Severity.ERROR, Where(_FIELD, where), rule, value, fix)
