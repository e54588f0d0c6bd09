# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Whether what was prepared, maybe under another limit, keeps the limit for bad lines of now."""

from collections.abc import Iterable

from seatrial.dataprep.inputs.codes import InputCode
from seatrial.dataprep.output.dataset import DatasetRecord
from seatrial.dataprep.tasks.records import Counts, PartRecord
from seatrial.dataprep.tasks.task_list import TaskList
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, Where

_FIELD = "data.preparation.largest_bad_share"


def refuse_bad_tasks(tasks: TaskList, records: Iterable[PartRecord]) -> None:
    """Raise FindingsError when a task that is done has more bad lines than is allowed now."""
    share = tasks.settings.largest_bad_share
    found = [
        _finding(tasks.tasks[record.task].inputs[0].address, record.counts, share)
        for record in records
        if _is_over(record.counts, share)
    ]
    if found:
        raise FindingsError(found)


def refuse_bad_sources(record: DatasetRecord, share: float) -> None:
    """Raise FindingsError when a source of a data set has more bad lines than is allowed now.

    Tasks are gone by then. If each of them kept the limit, so does their source.
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
        f"{bad:,} of {counts.lines:,} lines could not be used ({reasons}), more than the share of "
        f"{share:g} that is allowed now; they were prepared with another limit."
    )
    fix = f"Raise {_FIELD}, or mend the lines and prepare the data anew."
    value = f"{bad / counts.lines:.2g}"
    return Finding(InputCode.BAD_SHARE, Severity.ERROR, Where(_FIELD, where), rule, value, fix)
