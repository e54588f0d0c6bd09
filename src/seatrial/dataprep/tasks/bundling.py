# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs bundled by size into tasks.

The bundles depend on the inputs alone: never on workers, machines or time.
"""

from collections.abc import Iterable, Sequence

from seatrial.dataprep.tasks.task_list import InputFile, Task

SMALLEST = 8 << 20
"""Bytes below which a task is not worth its own start and files."""
LARGEST = 1 << 30
"""Bytes above which losing a task costs too much."""
TASKS = 256
"""As many tasks as there would be of a middle-sized corpus: enough to keep many workers even."""


def bundle(sources: Iterable[tuple[str, Sequence[InputFile]]]) -> list[Task]:
    """Tasks of about equal size; inputs keep their order, and a task has those of one source."""
    ordered = [(name, list(files)) for name, files in sources]
    total = sum(file.size for _, files in ordered for file in files)
    target = min(max(total // TASKS, SMALLEST), LARGEST)
    tasks: list[Task] = []
    for name, files in ordered:
        held: list[InputFile] = []
        size = 0
        for file in files:
            # A file that would take the bundle further past the target than it is below it
            # begins the next one.
            if held and size + file.size - target > target - size:
                tasks.append(Task(len(tasks), name, tuple(held)))
                held, size = [], 0
            held.append(file)
            size += file.size
        if held:
            tasks.append(Task(len(tasks), name, tuple(held)))
    return tasks
