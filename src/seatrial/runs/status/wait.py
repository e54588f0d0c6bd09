# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Waiting for the end of a run."""

import queue
import threading
import time
from collections.abc import Callable

from seatrial.cluster.errors import ClusterError, unreachable
from seatrial.codes.cluster import ClusterCode
from seatrial.runs.namespace import Tell
from seatrial.runs.status.status import Status

LOOK_SECONDS = 5.0
"""How often a run is looked at."""
LEAST_SECONDS = 5.0
"""What the first look may take, however short the limit is."""
LAST_SECONDS = 1.0
"""What the last look may take, which is at the limit itself."""
_OUTAGES = (ClusterCode.UNREACHABLE, ClusterCode.FAILING)
"""Errors that say nothing about the run."""


def wait(
    look: Callable[[], Status],
    limit: float | None,
    saw: Callable[[Status], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    tell: Tell = lambda _: None,
) -> Status:
    """Look at a run until it is over or time is up; the last status.

    Looking, rather than watching, sees the same after any outage, and a run takes hours. A server
    that cannot be reached is asked again; raises its ClusterError when time is up before it has
    answered once.
    """
    began, found = clock(), None
    away: ClusterError | None = None
    while True:
        left = None if limit is None else limit - (clock() - began)
        try:
            least = LEAST_SECONDS if found is None and away is None else LAST_SECONDS
            found = _looked(look, None if left is None else max(left, least))
        except ClusterError as error:
            if error.code not in _OUTAGES:
                raise
            away = error
            if limit is None or clock() - began < limit:
                tell(f"{error.findings[0].rule} Looking again.")
        else:
            saw(found)
            if found.is_over:
                return found
        left = None if limit is None else limit - (clock() - began)
        if left is not None and left <= 0:
            if found is not None:
                return found
            if away is not None:
                raise away
        sleep(LOOK_SECONDS if left is None else min(LOOK_SECONDS, max(left, 0.05)))


def _looked(look: Callable[[], Status], seconds: float | None) -> Status:
    """One look, given up after a time: a call of a server that is away lasts longer than that."""
    if seconds is None:
        return look()
    answers: queue.SimpleQueue[Status | Exception] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(look())
        except Exception as error:
            answers.put(error)

    # A thread that waits for a server must not keep the command from ending.
    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise unreachable("the cluster", "time was up", seconds) from None
    if isinstance(answer, Exception):
        raise answer
    return answer
