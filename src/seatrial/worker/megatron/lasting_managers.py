# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Helpers of the engine that must live until the last checkpoint is saved.

Asked to end, torchrun sends SIGTERM to the whole process group of each rank (`os.killpg` in
torch/distributed/elastic/multiprocessing/subprocess_handler.py). The rank notes it and saves. Its
checkpoint writer talks to a manager process of Python's multiprocessing, which is spawned at the
first save and kept (`get_write_results_queue` in Megatron's filesystem_async.py): it would die of
that signal, and the save with it (EOFError).
"""

import signal
from collections.abc import Callable
from multiprocessing import resource_tracker
from multiprocessing.managers import BaseManager
from typing import Any


def shield_managers() -> None:
    """Let manager processes that are started from now on ignore the wish to end.

    They go with the rank, which tells them, and with its pod or its supervisor, which kill what is
    left.
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
