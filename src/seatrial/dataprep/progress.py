# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How far a preparation has come: per source, with rate and time left."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from seatrial.dataprep.drivers.driver import Again, Done, Event, Moved
from seatrial.dataprep.tasks.records import PartRecord
from seatrial.dataprep.tasks.task_list import TaskList


class PreparationPhase(StrEnum):
    """What a preparation is doing."""

    LISTING = "listing"
    """Looking up every input, and bundling them into tasks."""
    CHOOSING = "choosing"
    """Finding the fastest tokenizer backend that is exact on this corpus."""
    PREPARING = "preparing"
    """Turning text into tokens."""
    ASSEMBLING = "assembling"
    """Putting the parts together."""
    VERIFYING = "verifying"
    """Reading all that was written again."""


@dataclass
class SourceProgress:
    """How far one source has come."""

    name: str
    total: int
    """Bytes of its inputs as stored."""
    before: int = 0
    """Bytes that an earlier start has prepared."""
    done: int = 0
    """Bytes of tasks that this start has finished."""
    running: dict[int, int] = field(default_factory=dict)
    """Bytes read of tasks under way."""
    tokens: int = 0
    """Tokens of finished tasks."""
    documents: int = 0
    """Documents of finished tasks."""

    @property
    def read(self) -> int:
        """Bytes prepared and under way."""
        return min(self.total, self.before + self.done + sum(self.running.values()))

    def rate(self, seconds: float) -> float:
        """Bytes a second of this start."""
        return (self.read - self.before) / seconds if seconds > 0 else 0.0

    def seconds_left(self, seconds: float) -> float | None:
        """Seconds until its end at the rate so far; nothing while there is no rate."""
        rate = self.rate(seconds)
        return (self.total - self.read) / rate if rate > 0 else None


@dataclass
class Progress:
    """How far a preparation has come."""

    phase: PreparationPhase
    """What it is doing."""
    sources: Mapping[str, SourceProgress] = field(default_factory=dict)
    """The sources, in order; empty before they are listed."""
    share: float = 0.0
    """Share of the phase that is done, when the phase is not about sources."""
    began: float = field(default_factory=time.monotonic)
    """When the phase began, on the monotonic clock."""
    again: list[Again] = field(default_factory=list)
    """Tasks that were lost and tried again."""

    @property
    def seconds(self) -> float:
        """Seconds since the phase began."""
        return time.monotonic() - self.began


Tell = Callable[[Progress], None]
"""Told how far a preparation has come, often."""


class Tracker:
    """Turns what a driver says into progress."""

    def __init__(self, tasks: TaskList, records: Iterable[PartRecord]) -> None:
        """Begin where an earlier start has ended."""
        self._source = {task.number: task.source for task in tasks.tasks}
        self._size = {task.number: task.size for task in tasks.tasks}
        totals = dict.fromkeys((source.name for source in tasks.settings.sources), 0)
        for task in tasks.tasks:
            totals[task.source] += task.size
        sources = {name: SourceProgress(name, total) for name, total in totals.items()}
        self.progress = Progress(PreparationPhase.PREPARING, sources)
        for record in records:
            source = self._of(record.task)
            source.before += self._size[record.task]
            self._count(source, record)

    def _of(self, task: int) -> SourceProgress:
        return self.progress.sources[self._source[task]]

    def _count(self, source: SourceProgress, record: PartRecord) -> None:
        source.tokens += sum(file.tokens for file in record.files)
        source.documents += sum(file.documents for file in record.files)

    def hear(self, event: Event) -> None:
        """Take in what happened."""
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
