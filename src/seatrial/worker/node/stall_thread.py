# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""A thread that notices when nothing happens, and finds out which ranks do not answer.

Every rank has one. When a rank's own steps stand still it says so in the store that torch keeps
for the processes; a rank that is stopped, or whose interpreter hangs, cannot. While all is well
nothing is sent.
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
"""Seconds between looks."""
ANSWER = 5.0
"""Seconds that the others have to notice the silence as well, and to say that they are there."""

Told = Callable[[float, tuple[int, ...]], None]
"""Told the time, and the ranks that do not answer."""


class Heartbeat:
    """Watches the steps of this process from beside them."""

    def __init__(self, rank: int, world_size: int, told: Told | None) -> None:
        """Begin with the steps; `told` is given by the rank that tells others."""
        self._rank, self._world_size, self._told = rank, world_size, told
        self._lock = threading.Lock()
        self._stalled = Stalled(Expectations())
        self._step = 0
        self._answered: int | None = None
        self._paused: float | None = None
        self._store: Any = None
        self._ending = threading.Event()

    def start(self, expected: Expectations) -> None:
        """Watch from now on, until the end of the process."""
        self._stalled = Stalled(expected)
        if self._world_size > 1 and torch.distributed.is_initialized():
            try:
                # A connection of its own: the engine may be waiting on the other one.
                store = torch.distributed.distributed_c10d._get_default_store()
                self._store = _inner(store).clone()
                self._store.set_timeout(timedelta(seconds=ANSWER))
            except (RuntimeError, AttributeError) as error:
                sys.stderr.write(f"seatrial: ranks that stop cannot be named: {error}\n")
        threading.Thread(target=self._watch, name="seatrial-heartbeat", daemon=True).start()

    def stop(self) -> None:
        """Watch no more."""
        self._ending.set()

    def beat(self, event: Event) -> None:
        """Something has happened in this process."""
        with self._lock:
            self._stalled.observe(event)
            self._step, self._paused = event.step, None

    def pause(self) -> None:
        """A save or an evaluation begins, which may take longer than steps do."""
        with self._lock:
            self._paused = time.time()

    def _watch(self) -> None:
        while not self._ending.wait(EVERY):
            now = time.time()
            with self._lock:
                # A pause that is not over after so long is silence as well.
                pausing = self._paused is not None and now - self._paused < SAVE_FLOOR
                silent = not pausing and bool(self._stalled.pass_time(now))
                step = self._step
            if silent and self._answered != step:
                self._answered = step
                self._act(step)

    def _act(self, step: int) -> None:
        """Say that this rank is there; the one that tells others waits for who else is."""
        missing: list[tuple[int, ...]] = []
        call = threading.Thread(target=lambda: missing.append(self._call(step)), daemon=True)
        call.start()
        # The store is a thread of rank 0: stopped, it answers nobody.
        call.join(3 * ANSWER)
        with self._lock:
            moved = self._step != step
        if moved or self._ending.is_set():
            return
        silent = missing[0] if missing else (0,)
        if self._told is not None:
            self._told(time.time(), silent)
        elif self._rank == 0 and self._world_size - 1 in silent:
            last = self._world_size - 1
            sys.stderr.write(
                f"seatrial: nothing has happened since step {step}, and rank {last}, which keeps "
                "the event log, does not answer\n"
            )

    def _call(self, step: int) -> tuple[int, ...]:
        """The ranks that do not say that they are there."""
        if self._store is None:
            return ()
        try:
            self._store.set(_key(step, self._rank), "here")
            if self._told is None and self._rank != 0:
                return ()
            time.sleep(ANSWER)
            # A rank may be a step ahead of another when both stand still.
            return tuple(
                rank
                for rank in range(self._world_size)
                if not any(self._store.check([_key(step + off, rank)]) for off in (0, 1, -1))
            )
        except RuntimeError:
            return (0,)


def _inner(store: Any) -> Any:
    """The store itself, without the prefixes that torch puts before keys."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    return store


def _key(step: int, rank: int) -> str:
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return f"seatrial/here/{restart}/{step}/{rank}"
