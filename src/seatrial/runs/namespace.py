# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The namespace in a cluster that contains the runs."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from seatrial.cluster.api import Api
from seatrial.runs.ledger.kubernetes import ClusterLedgerStore

Tell = Callable[[str], None]
"""Receives messages for the user, one sentence each."""


def _nobody(_: str) -> None:
    """Ignore messages."""


@dataclass(frozen=True, slots=True)
class Site:
    """One namespace in one cluster. Tests pass their own clock."""

    api: Api
    namespace: str
    tell: Tell = _nobody
    """Receives progress messages."""
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = field(default=time.monotonic)
    """A monotonic clock in seconds."""

    @property
    def ledgers(self) -> ClusterLedgerStore:
        return ClusterLedgerStore(self.api, self.namespace)

    @property
    def now(self) -> datetime:
        """The current time in UTC."""
        return datetime.now(UTC)
