# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Wait for a run to finish."""

import queue
import threading
import time
from collections.abc import Callable

from seatrial.cluster.errors import ClusterError, unreachable
from seatrial.codes.cluster import ClusterCode
from seatrial.runs.namespace import Tell
from seatrial.runs.status.status import Status

LOOK_SECONDS = 5.0
"""The polling interval."""
LEAST_SECONDS = 5.0
"""The time for the first query, even if the limit is shorter."""
LAST_SECONDS = 1.0
"""The time for the last query, which starts at the limit."""
_OUTAGES = (ClusterCode.UNREACHABLE, ClusterCode.FAILING)
"""Errors that are unrelated to the run."""


def wait(
    look: Callable[[], Status],
    limit: float | None,
    saw: Callable[[Status], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    tell: Tell = lambda _: None,
) -> Status:
    """Poll a run until it finishes or the limit expires. Return the last status.

    Polling is as reliable as watching after an outage, and a run takes hours. Retries while the
    server is unreachable. Raises its ClusterError if the limit expires before the first answer.
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
                tell(f"{error.findings[0].rule} Retrying.")
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
    """Query once with a timeout, because a call to an unreachable server takes longer."""
    if seconds is None:
        return look()
    answers: queue.SimpleQueue[Status | Exception] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(look())
        except Exception as error:
            answers.put(error)

    # A thread that waits for a server must not block the exit of the command.
    threading.Thread(target=ask, daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise unreachable("the cluster", "timed out", seconds) from None
    if isinstance(answer, Exception):
        raise answer
    return answer
