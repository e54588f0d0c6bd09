# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The progress of a preparation: per source, with rate and time left."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from seatrial.dataprep.drivers.driver import Again, Done, Event, Moved
from seatrial.dataprep.tasks.records import PartRecord
from seatrial.dataprep.tasks.task_list import TaskList


class PreparationPhase(StrEnum):
    """The phases of a preparation."""

    LISTING = "listing"
    """Listing every input, and bundling them into tasks."""
    CHOOSING = "choosing"
    """Finding the fastest tokenizer backend that is exact on this corpus."""
    PREPARING = "preparing"
    """Turning text into tokens."""
    ASSEMBLING = "assembling"
    """Assembling the parts into files."""
    VERIFYING = "verifying"
    """Reading all output again."""


@dataclass
class SourceProgress:
    """The progress of one source."""

    name: str
    total: int
    """Stored bytes of its inputs."""
    before: int = 0
    """Bytes of tasks that an earlier start finished."""
    done: int = 0
    """Bytes of tasks that this start finished."""
    running: dict[int, int] = field(default_factory=dict)
    """Bytes read of running tasks, by task number."""
    tokens: int = 0
    """Tokens of finished tasks."""
    documents: int = 0
    """Documents of finished tasks."""

    @property
    def read(self) -> int:
        """Bytes that are prepared or in progress."""
        return min(self.total, self.before + self.done + sum(self.running.values()))

    def rate(self, seconds: float) -> float:
        """Return the bytes per second of this start."""
        return (self.read - self.before) / seconds if seconds > 0 else 0.0

    def seconds_left(self, seconds: float) -> float | None:
        """Return the seconds left at the rate so far; None if there is no rate yet."""
        rate = self.rate(seconds)
        return (self.total - self.read) / rate if rate > 0 else None


@dataclass
class Progress:
    """The progress of a preparation."""

    phase: PreparationPhase
    """The current phase."""
    sources: Mapping[str, SourceProgress] = field(default_factory=dict)
    """The sources, in order; empty before they are listed."""
    share: float = 0.0
    """Finished share of a phase that does not process sources."""
    began: float = field(default_factory=time.monotonic)
    """Start of the phase on the monotonic clock."""
    again: list[Again] = field(default_factory=list)
    """Tasks that failed and were retried."""
    tasks: int = 0
    """Number of tasks in the list; 0 before the inputs are listed."""
    tasks_done: int = 0
    """Number of tasks with a record."""

    @property
    def seconds(self) -> float:
        """Seconds since the phase started."""
        return time.monotonic() - self.began

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the end of the phase at the rate so far; None if there is no rate yet."""
        share = self.share
        if self.sources:
            before = sum(source.before for source in self.sources.values())
            total = sum(source.total for source in self.sources.values()) - before
            read = sum(source.read for source in self.sources.values()) - before
            share = read / total if total else 0.0
        return self.seconds * (1 - share) / share if share > 0 else None


Tell = Callable[[Progress], None]
"""Receives the progress of a preparation, often."""


class Tracker:
    """Turns the events of a driver into progress."""

    def __init__(self, tasks: TaskList, records: Iterable[PartRecord]) -> None:
        """Start from the records of earlier starts."""
        self._source = {task.number: task.source for task in tasks.tasks}
        self._size = {task.number: task.size for task in tasks.tasks}
        totals = dict.fromkeys((source.name for source in tasks.settings.sources), 0)
        for task in tasks.tasks:
            totals[task.source] += task.size
        sources = {name: SourceProgress(name, total) for name, total in totals.items()}
        self.progress = Progress(PreparationPhase.PREPARING, sources, tasks=len(tasks.tasks))
        for record in records:
            source = self._of(record.task)
            source.before += self._size[record.task]
            self._count(source, record)

    def _of(self, task: int) -> SourceProgress:
        return self.progress.sources[self._source[task]]

    def _count(self, source: SourceProgress, record: PartRecord) -> None:
        self.progress.tasks_done += 1
        source.tokens += sum(file.tokens for file in record.files)
        source.documents += sum(file.documents for file in record.files)

    def hear(self, event: Event) -> None:
        """Apply an event."""
        match event:
            case Moved(task, input_bytes):
                self._of(task).running[task] = input_bytes
            case Done(record):
                source = self._of(record.task)
                source.running.pop(record.task, None)
                source.done += self._size[record.task]
                self._count(source, record)
            case Again(task):
                self._of(task).running.pop(task, None)
                self.progress.again.append(event)
