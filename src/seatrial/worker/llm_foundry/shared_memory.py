# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Shared memory of the streaming library, waited for until it has its size.

Ranks of a node make a block by its name, or attach to it where another was first; between its name
and its size there is a moment in which attaching fails with "cannot mmap an empty file"
(mosaicml-streaming 0.12.0, base/shared/memory.py). The library waits 7 ms for that, and a busy
host stops a process for longer.
"""

import time
from typing import Any

from streaming.base.shared import memory

PATIENCE = 60.0
"""Seconds after which a block without a size is an error."""
TICK = 0.02


class _WaitingMemory(memory.BuiltinSharedMemory):  # type: ignore[misc]
    """A block that is attached to only once it has its size."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                super().__init__(*args, **kwargs)
            except ValueError as error:
                if "empty file" not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(TICK)
            else:
                return


def install() -> None:
    """Let the streaming library make its blocks so."""
    memory.BuiltinSharedMemory = _WaitingMemory
