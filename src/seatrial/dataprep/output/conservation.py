# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Whether what tasks gave is what the files have: nothing lost, nothing twice, all in order."""

from collections.abc import Iterable

from seatrial.dataprep.output.codes import DatasetCode
from seatrial.dataprep.output.dataset import RECORD_FILE, DataFile
from seatrial.dataprep.output.report import Report
from seatrial.dataprep.tasks.records import PartRecord
from seatrial.dataprep.tasks.task_list import TaskList
from seatrial.findings import Finding


def check_conserved(
    tasks: TaskList, records: Iterable[PartRecord], files: Iterable[DataFile]
) -> list[Finding]:
    """Whether every document and token of every part is in the files, in its place, once."""
    given = {}
    for record in records:
        for part in record.files if record.list_digest == tasks.digest else ():
            key = (record.task, part.domain)
            given[key] = (part.documents, part.tokens, part.tokens_digest)
    source_of = {task.number: task.source for task in tasks.tasks}
    report = Report(RECORD_FILE)
    last: dict[tuple[str, str], int] = {}
    for file in files:
        for segment in file.segments:
            found = (segment.documents, segment.tokens, segment.digest)
            if given.pop((segment.task, file.domain), None) != found:
                rule = f"{file.name} has something of task {segment.task} that its record has not."
                report.add(DatasetCode.COUNTS, rule, segment.task)
            group = (file.source, file.domain)
            if source_of.get(segment.task) != file.source or last.get(group, -1) >= segment.task:
                rule = f"{file.name}: task {segment.task} is not in its place."
                report.add(DatasetCode.COUNTS, rule, segment.task)
            last[group] = segment.task
    for task, domain in given:
        rule = f"what task {task} gave for the domain {domain!r} is in no file."
        report.add(DatasetCode.COUNTS, rule, task)
    return report.findings()
