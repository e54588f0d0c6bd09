# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Results of a save, sealed on their way through the engine's queue.

The queue is held by a process of its own for each rank (`get_write_results_queue` in Megatron's
filesystem_async.py), which opens whatever goes through. The results are objects of torch: that
process would load torch for them, half a gigabyte a rank, while the first save after a start waits
for it. As bytes they mean nothing to it.
"""

import pickle
from collections.abc import Callable
from functools import wraps
from typing import Any


class SealedQueue:
    """A queue whose items are closed for all but those at its ends."""

    def __init__(self, queue: Any) -> None:
        """Stand before a queue."""
        self._queue = queue

    def put(self, item: Any) -> None:
        """Close an item and send it."""
        self._queue.put(pickle.dumps(item))

    def get_nowait(self) -> Any:
        """The next item, opened.

        Raises:
            queue.Empty: There is none.
        """
        return pickle.loads(self._queue.get_nowait())  # noqa: S301  (from this rank's own writer)


def sealing(original: Callable[..., Any]) -> Callable[..., SealedQueue]:
    """The engine's function that makes the queue, which then seals what goes through."""

    # The engine looks at the names of its arguments (megatron/training/async_utils.py).
    @wraps(original)
    def get_write_results_queue(*args: Any, **kwargs: Any) -> SealedQueue:
        return SealedQueue(original(*args, **kwargs))

    return get_write_results_queue
