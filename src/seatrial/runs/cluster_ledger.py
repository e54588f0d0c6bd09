# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Ledgers as config maps beside their runs: one key for each attempt, written once each.

A change names the version that it was made from, so that of two who write at once the second
reads again, and no attempt is lost.
"""

from collections.abc import Callable
from dataclasses import dataclass

from seatrial.cluster import objects
from seatrial.cluster.api import Api
from seatrial.cluster.errors import ConflictError
from seatrial.cluster.kinds import CONFIG_MAP
from seatrial.cluster.transport import Json
from seatrial.rendering.names import COMPONENT_LABEL, RUN_LABEL
from seatrial.runs.ledger import (
    AttemptRecord,
    AttemptTakenError,
    End,
    Ledger,
    record_of,
)

COMPONENT = "ledger"
"""The component label of a ledger."""
SUFFIX = "ledger"
_KEY = "attempt-"
_MOST_TRIES = 50


def ledger_name(run: str) -> str:
    """The name of a run's ledger."""
    return f"{run}-{SUFFIX}"


def ledger_of(config_map: Json | None) -> Ledger:
    """The ledger in a config map."""
    data: dict[str, str] = (config_map or {}).get("data") or {}
    records = [record_of(text) for key, text in data.items() if key.startswith(_KEY)]
    return Ledger(tuple(sorted(records, key=lambda record: record.number)))


@dataclass(frozen=True, slots=True)
class ClusterLedgerStore:
    """The ledgers of a namespace."""

    api: Api
    """The cluster."""
    namespace: str
    """The namespace."""

    def read(self, run: str) -> Ledger:
        """The ledger of a run."""
        return ledger_of(self._config_map(run))

    def read_all(self) -> dict[str, Ledger]:
        """The ledgers of all runs of the namespace."""
        selector = f"{COMPONENT_LABEL}={COMPONENT}"
        found, _ = objects.list_all(self.api, CONFIG_MAP, self.namespace, selector)
        return {each["metadata"]["labels"][RUN_LABEL]: ledger_of(each) for each in found}

    def add(self, run: str, record: AttemptRecord) -> None:
        """Begin an attempt."""
        self._change(run, lambda ledger: _begun(ledger, record))

    def end(self, run: str, number: int, end: End) -> None:
        """Note the end of an attempt."""

        def ended(ledger: Ledger) -> AttemptRecord | None:
            there = ledger.attempt(number)
            if there is None or there.outcome is not None:
                return None
            return there.finished(end)

        self._change(run, ended)

    def forget(self, run: str) -> None:
        """Delete the ledger of a run."""
        objects.delete(self.api, CONFIG_MAP, self.namespace, ledger_name(run))

    def _config_map(self, run: str) -> Json | None:
        return objects.read(self.api, CONFIG_MAP, self.namespace, ledger_name(run))

    def _change(self, run: str, decide: Callable[[Ledger], AttemptRecord | None]) -> None:
        """Write what is decided from what is there, until nobody has written in between."""
        for left in range(_MOST_TRIES, 0, -1):
            there = self._config_map(run)
            record = decide(ledger_of(there))
            if record is None:
                return
            data = {f"{_KEY}{record.number:05}": record.to_text()}
            try:
                if there is None:
                    objects.create(self.api, self._new(run, data))
                else:
                    version = {"resourceVersion": there["metadata"]["resourceVersion"]}
                    change: Json = {"metadata": version, "data": data}
                    objects.patch(self.api, CONFIG_MAP, self.namespace, ledger_name(run), change)
            except ConflictError:
                if left == 1:
                    raise
                continue
            return

    def _new(self, run: str, data: dict[str, str]) -> Json:
        labels = {
            "app.kubernetes.io/name": "seatrial",
            "app.kubernetes.io/instance": run,
            "app.kubernetes.io/managed-by": "seatrial",
            RUN_LABEL: run,
            COMPONENT_LABEL: COMPONENT,
        }
        head = {"name": ledger_name(run), "namespace": self.namespace, "labels": labels}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": head, "data": data}


def _begun(ledger: Ledger, record: AttemptRecord) -> AttemptRecord | None:
    """The record to write; nothing when an earlier try of the same call has written it."""
    there = ledger.attempt(record.number)
    if there is None:
        return record
    if there.submission != record.submission:
        raise AttemptTakenError(str(record.number))
    return None
