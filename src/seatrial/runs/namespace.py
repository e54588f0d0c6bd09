# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Where runs are: one namespace of one cluster."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from seatrial.cluster.api import Api
from seatrial.runs.ledger.kubernetes import ClusterLedgerStore

Tell = Callable[[str], None]
"""Told what a person should know, in a sentence."""


def _nobody(_: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class Site:
    """One namespace of one cluster; tests bring their own time."""

    api: Api
    namespace: str
    tell: Tell = _nobody
    """Told what takes long."""
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = field(default=time.monotonic)
    """Seconds that only grow."""

    @property
    def ledgers(self) -> ClusterLedgerStore:
        """The ledgers of the namespace."""
        return ClusterLedgerStore(self.api, self.namespace)

    @property
    def now(self) -> datetime:
        """The time of day."""
        return datetime.now(UTC)
