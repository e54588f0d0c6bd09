# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A thread that detects a stall and identifies the ranks that do not respond.

Every rank has this thread. When a rank's own steps stall, it reports this in torch's distributed
store. A rank that is stopped, or whose interpreter hangs, cannot report. While steps progress, no
rank sends a message.
"""

import os
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch

from seatrial.monitoring.anomalies.detector import Expectations
from seatrial.monitoring.anomalies.stalled import Stalled
from seatrial.monitoring.event_log import Event
from seatrial.monitoring.hang_timeouts import SAVE_FLOOR

EVERY = 1.0
"""Seconds between checks."""
ANSWER = 5.0
"""Seconds that the other ranks have to detect and report the stall."""

StallCallback = Callable[[float, tuple[int, ...]], None]
"""Called with the current time and the ranks that do not respond."""


class Heartbeat:
    """Monitors the steps of this process from a thread."""

    def __init__(self, rank: int, world_size: int, on_stall: StallCallback | None) -> None:
        """Store the callback; only the rank that writes the event log has one."""
        self._rank, self._world_size, self._on_stall = rank, world_size, on_stall
        self._lock = threading.Lock()
        self._stalled = Stalled(Expectations())
        self._step = 0
        self._answered: int | None = None
        self._paused: float | None = None
        self._store: Any = None
        self._ending = threading.Event()

    def start(self, expected: Expectations) -> None:
        """Monitor the steps until the process exits."""
        self._stalled = Stalled(expected)
        if self._world_size > 1 and torch.distributed.is_initialized():
            try:
                # Use a separate connection: the engine may be waiting on its own.
                store = torch.distributed.distributed_c10d._get_default_store()
                self._store = _inner(store).clone()
                self._store.set_timeout(timedelta(seconds=ANSWER))
            except (RuntimeError, AttributeError) as error:
                sys.stderr.write(f"seatrial: stalled ranks cannot be identified: {error}\n")
        threading.Thread(target=self._watch, name="seatrial-heartbeat", daemon=True).start()

    def stop(self) -> None:
        self._ending.set()

    def beat(self, event: Event) -> None:
        """Record an event from this process."""
        with self._lock:
            self._stalled.observe(event)
            self._step, self._paused = event.step, None

    def pause(self) -> None:
        """Record the start of a save or an evaluation, which may take longer than steps."""
        with self._lock:
            self._paused = time.time()

    def _watch(self) -> None:
        while not self._ending.wait(EVERY):
            now = time.time()
            with self._lock:
                # A pause of this length is also a stall.
                pausing = self._paused is not None and now - self._paused < SAVE_FLOOR
                silent = not pausing and bool(self._stalled.pass_time(now))
                step = self._step
            if silent and self._answered != step:
                self._answered = step
                self._act(step)

    def _act(self, step: int) -> None:
        """Report that this rank is alive; the rank with the callback waits for the others."""
        missing: list[tuple[int, ...]] = []
        call = threading.Thread(target=lambda: missing.append(self._call(step)), daemon=True)
        call.start()
        # The store is a thread in rank 0: if rank 0 is stopped, no call returns.
        call.join(3 * ANSWER)
        with self._lock:
            moved = self._step != step
        if moved or self._ending.is_set():
            return
        silent = missing[0] if missing else (0,)
        if self._on_stall is not None:
            self._on_stall(time.time(), silent)
        elif self._rank == 0 and self._world_size - 1 in silent:
            last = self._world_size - 1
            sys.stderr.write(
                f"seatrial: no progress since step {step}; rank {last}, which writes the event "
                "log, does not respond\n"
            )

    def _call(self, step: int) -> tuple[int, ...]:
        """Return the ranks that do not report."""
        if self._store is None:
            return ()
        try:
            self._store.set(_key(step, self._rank), "here")
            if self._on_stall is None and self._rank != 0:
                return ()
            time.sleep(ANSWER)
            # Stalled ranks may differ by one step.
            return tuple(
                rank
                for rank in range(self._world_size)
                if not any(self._store.check([_key(step + off, rank)]) for off in (0, 1, -1))
            )
        except RuntimeError:
            return (0,)


def _inner(store: Any) -> Any:
    """Return the store itself, without torch's key prefixes."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return store


def _key(step: int, rank: int) -> str:
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return f"seatrial/here/{restart}/{step}/{rank}"
