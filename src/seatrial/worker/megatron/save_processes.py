# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The helper processes for the engine's saves: their setup, and their protection from signals.

For each rank, the engine starts a process that saves in the background (`PersistentAsyncCaller`)
and, at the first save, a multiprocessing manager that owns the result queue
(`get_write_results_queue` in Megatron's filesystem_async.py). Both start as new programs: they do
not have the training process's patches, and they import this module. Therefore this module loads
neither torch nor the engine.
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
    """Run the engine's loop in the saving process, with digests of the written files."""
    if settings().device is Device.CPU:
        end_with_parent()
        # Otherwise the process requests a GPU and exits, and training waits forever for the save.
        from seatrial.worker.megatron.cpu.redirection import redirect  # noqa: PLC0415

        redirect()
    # Import this late, because it imports the engine.
    from seatrial.worker.megatron.commit_digests import run_saving_loop  # noqa: PLC0415

    run_saving_loop(*args, **kwargs)


class PickledQueue:
    """A queue whose items are bytes to the process that owns the queue.

    The owner unpickles every item. The results of a save are torch objects, so the owner would load
    torch, half a gigabyte per rank, while the first save after a start waits.
    """

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    def put(self, item: Any) -> None:
        self._queue.put(pickle.dumps(item))

    def get_nowait(self) -> Any:
        """Return the next item, unpickled.

        Raises:
            queue.Empty: The queue is empty.
        """
        return pickle.loads(self._queue.get_nowait())  # noqa: S301  (from this rank's own writer)


def pickle_results(original: Callable[..., Any]) -> Callable[..., PickledQueue]:
    """Wrap the engine's function that creates the result queue, so that its items are bytes."""

    # The engine inspects the names of its arguments (megatron/training/async_utils.py).
    @wraps(original)
    def get_write_results_queue(*args: Any, **kwargs: Any) -> PickledQueue:
        return PickledQueue(original(*args, **kwargs))

    return get_write_results_queue


def shield_managers() -> None:
    """Make manager processes that start after this call ignore SIGTERM.

    To stop a run, torchrun sends SIGTERM to the whole process group of each rank (`os.killpg` in
    torch/distributed/elastic/multiprocessing/subprocess_handler.py). The rank records the signal
    and saves; a manager would exit, and the save would fail (EOFError). Managers exit with the
    rank, which shuts them down, or with the pod or the supervisor, which kill orphans.
    """
    original: Callable[..., None] = BaseManager.start

    def start(self: BaseManager, *args: Any, **kwargs: Any) -> None:
        # If start() launched the tracker, that would unblock the signal (resource_tracker.py).
        resource_tracker.ensure_running()
        # A child inherits blocked signals. If this process ignored the signal, the signal would be
        # lost; a blocked signal is delivered a moment later.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        try:
            original(self, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    BaseManager.start = start  # type: ignore[method-assign]
