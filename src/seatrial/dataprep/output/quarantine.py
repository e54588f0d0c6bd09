# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The list of all lines that could not be used, with their places: one file for the data set."""

from collections.abc import Mapping

from seatrial.dataprep.output.assemble import DamagedPartsError
from seatrial.dataprep.output.codes import DatasetCode
from seatrial.dataprep.stores.store import Store
from seatrial.dataprep.tasks.records import PartRecord
from seatrial.dataprep.tasks.task_list import TaskList
from seatrial.findings import Finding, Severity, Where

QUARANTINE_FILE = "quarantine.jsonl"
"""Where the list lies below the root of the output."""
_CHUNK = 1 << 20


def collect_quarantine(
    store: Store, tasks: TaskList, records: Mapping[int, PartRecord]
) -> str | None:
    """Put the lists of all tasks together, in the order of the tasks; nothing without bad lines."""
    lists = [
        (task.number, path)
        for task in tasks.tasks
        if (path := records[task.number].quarantine_file) is not None
    ]
    if not lists:
        return None
    with store.open_writer(QUARANTINE_FILE) as out:
        for number, path in lists:
            try:
                with store.open_reader(path) as stream:
                    while data := stream.read(_CHUNK):
                        out.write(data)
            except FileNotFoundError:
                rule, fix = "the list of bad lines of a task is gone.", "Run the command again."
                where = Where(file=path)
                finding = Finding(DatasetCode.PART, Severity.ERROR, where, rule, "", fix)
                raise DamagedPartsError([finding], [number]) from None
    return QUARANTINE_FILE
