# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The helper processes of the engine's saves: what they need of ours, and what keeps them alive.

For each rank the engine starts a process that saves beside the training (`PersistentAsyncCaller`),
and a manager process of Python's multiprocessing that holds the queue of results
(`get_write_results_queue` in Megatron's filesystem_async.py), at the first save. Both start as new
programs: they have nothing of what was put in place for the training, and they import this module.
So it loads neither torch nor the engine.
"""

import pickle
import signal
from collections.abc import Callable
from functools import wraps
from multiprocessing import resource_tracker
from multiprocessing.managers import BaseManager
from typing import Any

from seatrial.worker.process import end_with_parent
from seatrial.worker.settings import Device, settings


def save_in_background(*args: Any, **kwargs: Any) -> None:
    """The engine's own loop of the saving process, which hashes what it writes."""
    if settings().device is Device.CPU:
        end_with_parent()
        # Else it asks for a GPU, ends, and leaves the training to wait for a save for ever.
        from seatrial.worker.megatron.cpu.redirection import redirect  # noqa: PLC0415

        redirect()
    # Not before: it imports the engine.
    from seatrial.worker.megatron.commit_digests import run_saving_loop  # noqa: PLC0415

    run_saving_loop(*args, **kwargs)


class PickledQueue:
    """A queue whose items are bytes to the process that holds it.

    That process unpickles whatever goes through. The results of a save are objects of torch: it
    would load torch for them, half a gigabyte a rank, while the first save after a start waits.
    """

    def __init__(self, queue: Any) -> None:
        """Wrap a queue."""
        self._queue = queue

    def put(self, item: Any) -> None:
        """Pickle an item and send it."""
        self._queue.put(pickle.dumps(item))

    def get_nowait(self) -> Any:
        """The next item, unpickled.

        Raises:
            queue.Empty: There is none.
        """
        return pickle.loads(self._queue.get_nowait())  # noqa: S301  (from this rank's own writer)


def pickle_results(original: Callable[..., Any]) -> Callable[..., PickledQueue]:
    """The engine's function that makes the queue of results, which are bytes in it from now on."""

    # The engine looks at the names of its arguments (megatron/training/async_utils.py).
    @wraps(original)
    def get_write_results_queue(*args: Any, **kwargs: Any) -> PickledQueue:
        return PickledQueue(original(*args, **kwargs))

    return get_write_results_queue


def shield_managers() -> None:
    """Have manager processes that are started from now on ignore SIGTERM.

    To end a run, torchrun sends SIGTERM to the whole process group of each rank (`os.killpg` in
    torch/distributed/elastic/multiprocessing/subprocess_handler.py). The rank notes it and saves;
    a manager would die of it, and the save with it (EOFError). Managers end with the rank, which
    tells them, and with its pod or its supervisor, which kill what is left.
    """
    original: Callable[..., None] = BaseManager.start

    def start(self: BaseManager, *args: Any, **kwargs: Any) -> None:
        # Started within, it would unblock the signal (multiprocessing/resource_tracker.py).
        resource_tracker.ensure_running()
        # What is blocked stays so in a program that is started meanwhile; an ignored signal would
        # be lost to this process, a blocked one comes a moment later.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            original(self, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    BaseManager.start = start  # type: ignore[method-assign]
