# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What attempts have written: the files of one, and those that dead ones left behind."""

import re
from collections.abc import Mapping

from seatrial.dataprep.stores.attempts import is_dead
from seatrial.dataprep.stores.store import Store
from seatrial.dataprep.tasks.records import part_prefix

_WRITTEN = re.compile(
    r"(?:/parts/(?P<task>\d{6,}))?\.(?P<attempt>[0-9a-f]{8}-\d+-\d+-\d+)(?![\d-])[^/]*$"
)


def dead_files(store: Store, name: str, winners: Mapping[int, str]) -> list[str]:
    """Files of a list's work that no record names and whose writers are gone.

    Args:
        store: Where the data are prepared.
        name: The short name of the frozen list.
        winners: The attempt that the record names, for each task that has one.
    """
    dead = []
    for file in store.list(f"work/{name}"):
        match = _WRITTEN.search(file.path)
        if match is not None and is_dead(match["attempt"]):
            task = match["task"]
            if task is None or winners.get(int(task)) != match["attempt"]:
                dead.append(file.path)
    return dead


def files_of(store: Store, name: str, attempt: str) -> list[str]:
    """Files of parts that an attempt wrote."""
    below = part_prefix(name, 0, attempt).rpartition("/")[0]
    return [file.path for file in store.list(below) if f".{attempt}" in file.path]
