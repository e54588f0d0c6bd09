# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Ledgers in ConfigMaps: one key per attempt, each written once.

Every change names the version that it is based on. Of two concurrent writers, the second reads
again, so no attempt is lost.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from seatrial.cluster import objects
from seatrial.cluster.api import Api
from seatrial.cluster.errors import ConflictError
from seatrial.cluster.kinds import CONFIG_MAP
from seatrial.cluster.transport import Json
from seatrial.errors import FindingsError
from seatrial.findings import Finding
from seatrial.naming import older_part_name, part_name
from seatrial.rendering.names import COMPONENT_LABEL, MANAGED_BY, MANAGED_BY_LABEL, RUN_LABEL
from seatrial.runs.ledger.ledger import (
    AttemptRecord,
    AttemptTakenError,
    End,
    Ledger,
    damaged,
    record_of,
    without_record,
)
from seatrial.runs.ownership import belongs_to, not_ours
from seatrial.storage.state_files import DamagedError

COMPONENT = "ledger"
"""The value of the component label."""
PART = "ledger"
_KEY = "attempt-"
_OBJECT_KEY = "object."
"""The prefix of keys that hold the uid of an object of the run."""
_MOST_TRIES = 50
_FIX = (
    "Stop the run if it is running (seatrial stop). Then remove this key from the ConfigMap "
    "(kubectl edit), or restore it."
)


def ledger_name(run: str) -> str:
    return part_name(run, PART)


def ledger_of(config_map: Json | None) -> Ledger:
    """Parse the ledger in a ConfigMap."""
    data: dict[str, str] = (config_map or {}).get("data") or {}
    head = (config_map or {}).get("metadata") or {}
    records: dict[int, AttemptRecord] = {}
    damage: list[Finding] = []
    unknown: set[int] = set()
    for key, text in sorted(data.items()):
        if not key.startswith(_KEY):
            continue
        digits = key.removeprefix(_KEY)
        is_key = digits.isascii() and digits.isdigit() and f"{int(digits[:9]):05}" == digits
        number = int(digits) if is_key else 0
        try:
            if not number:
                raise DamagedError("the key is not an attempt number")
            records[number] = record_of(text, number)
        except DamagedError as error:
            where = f"ConfigMap {head.get('namespace', '')}/{head.get('name', '')}, data.{key}"
            damage.append(damaged(where, error, _FIX))
            if number:
                unknown.add(number)
                records[number] = without_record(number)
    ordered = tuple(record for _, record in sorted(records.items()))
    return Ledger(ordered, tuple(damage), frozenset(unknown))


@dataclass(frozen=True, slots=True)
class ClusterLedgerStore:
    api: Api
    namespace: str

    def read(self, run: str) -> Ledger:
        return ledger_of(self._config_map(run))

    def read_all(self) -> dict[str, Ledger]:
        """Return the ledgers of all runs in the namespace."""
        selector = f"{COMPONENT_LABEL}={COMPONENT}"
        found, _ = objects.list_all(self.api, CONFIG_MAP, self.namespace, selector)
        named = [(str((e["metadata"].get("labels") or {}).get(RUN_LABEL)), e) for e in found]
        return {run: ledger_of(e) for run, e in named if belongs_to(e, run, _uids(e))}

    def add(self, run: str, record: AttemptRecord) -> None:
        """Start an attempt. Raises AttemptTakenError if its number is taken."""
        self._change(run, lambda ledger: _begun(ledger, record))

    def end(self, run: str, number: int, end: End) -> None:
        """Record the end of an attempt."""

        def ended(ledger: Ledger) -> AttemptRecord | None:
            there = ledger.attempt(number)
            # Leave a damaged record unchanged, so that it can still be restored.
            if there is None or there.outcome is not None or not ledger.is_known(number):
                return None
            return there.finished(end)

        self._change(run, ended)

    def note_objects(self, run: str, made: Iterable[Json]) -> None:
        """Record the objects of a launch. Does not recreate a deleted ledger."""
        made = tuple(made)
        for left in range(_MOST_TRIES, 0, -1):
            there = self._config_map(run)
            if there is None or not made:
                return
            # Include the ledger's own uid: a copy of the ledger has a different one.
            data = {_object_key(each): str(each["metadata"]["uid"]) for each in (*made, there)}
            name, uid = there["metadata"]["name"], there["metadata"]["uid"]
            change: Json = {"metadata": {"uid": uid}, "data": data}
            try:
                objects.patch(self.api, CONFIG_MAP, self.namespace, name, change)
            except ConflictError:
                if left == 1:
                    raise
            else:
                return

    def objects_of(self, run: str) -> frozenset[str]:
        """Return the uids of the objects that launches of a run created."""
        return _uids(self._config_map(run) or {})

    def _config_map(self, run: str) -> Json | None:
        """Return the ledger of a run, also under the name that an earlier version used."""
        for name in (ledger_name(run), older_part_name(run, PART)):
            there = objects.read(self.api, CONFIG_MAP, self.namespace, name)
            if there is not None and belongs_to(there, run, _uids(there)):
                return there
        return None

    def _change(self, run: str, decide: Callable[[Ledger], AttemptRecord | None]) -> None:
        """Write a record based on the current ledger. Retry on concurrent writes."""
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
                    name = there["metadata"]["name"]
                    objects.patch(self.api, CONFIG_MAP, self.namespace, name, change)
            except ConflictError:
                self._refuse_foreign(run)
                if left == 1:
                    raise
                continue
            return

    def _refuse_foreign(self, run: str) -> None:
        """Raise if the ledger's name is taken by another owner's object."""
        there = objects.read(self.api, CONFIG_MAP, self.namespace, ledger_name(run))
        if there is not None and not belongs_to(there, run, _uids(there)):
            raise FindingsError([not_ours(CONFIG_MAP, self.namespace, there, run)])

    def _new(self, run: str, data: dict[str, str]) -> Json:
        labels = {
            "app.kubernetes.io/name": "seatrial",
            "app.kubernetes.io/instance": run,
            MANAGED_BY_LABEL: MANAGED_BY,
            RUN_LABEL: run,
            COMPONENT_LABEL: COMPONENT,
        }
        head = {"name": ledger_name(run), "namespace": self.namespace, "labels": labels}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": head, "data": data}


def _uids(config_map: Json) -> frozenset[str]:
    """Return the uids of objects in a ledger."""
    data: dict[str, str] = config_map.get("data") or {}
    return frozenset(uid for key, uid in data.items() if key.startswith(_OBJECT_KEY))


def _object_key(item: Json) -> str:
    """Return the key of an object: its kind and name."""
    group = str(item["apiVersion"]).rpartition("/")[0]
    kind = f"{item['kind']}.{group}".rstrip(".")
    return f"{_OBJECT_KEY}{kind}.{item['metadata']['name']}"


def _begun(ledger: Ledger, record: AttemptRecord) -> AttemptRecord | None:
    """Return the record to write. None if an earlier try of the same call has written it."""
    there = ledger.attempt(record.number)
    if there is None:
        return record
    if there.submission != record.submission:
        raise AttemptTakenError(str(record.number))
    return None
