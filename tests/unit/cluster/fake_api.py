# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""An API server in memory: objects, versions, watches, and any fault that a test puts in."""

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from seatrial.cluster.api import Api, CallPatience
from seatrial.cluster.kinds import KINDS, ObjectKind
from seatrial.cluster.transport import (
    APPLY,
    Answer,
    Call,
    DroppedError,
    Json,
    RefusedStreamError,
)

Fault = Callable[[Call], Answer | Exception | None]
"""What happens instead of an answer; nothing for the answer itself."""


@dataclass
class FakeTime:
    """Time that passes only when somebody sleeps."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list)
    on_sleep: Callable[[], None] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)
        self.on_sleep()

    def clock(self) -> float:
        return self.now


class FakeTransport:
    """A server that knows the kinds of our table."""

    def __init__(self, unserved: tuple[ObjectKind, ...] = ()) -> None:
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self.after: list[Fault] = []
        self.denied: set[tuple[str, str]] = set()
        self.unserved = unserved
        self.renewed = 0
        self.ready = True
        self.openapi: Json = {}
        self.instead: Callable[[Call], Answer | None] | None = None
        self.streams: dict[str, list[list[bytes | Exception]]] = {}
        self._numbers = count(1)

    server = "https://cluster.example"

    def renew(self) -> None:
        self.renewed += 1

    def request(self, call: Call) -> Answer:
        self.calls.append(call)
        self._fail(self.faults, call)
        answer = self._fault(self.faults, call)
        if answer is None and self.instead is not None:
            answer = self.instead(call)
        if answer is None:
            answer = self._answer(call)
        # A fault after the deed: done, and the answer lost.
        self._fail(self.after, call)
        return answer

    @contextmanager
    def stream(self, call: Call) -> Iterator[Iterator[bytes]]:
        self.calls.append(call)
        waiting = self.streams.get(call.path) or []
        if not waiting:
            raise DroppedError("nothing more is scripted")
        yield _replayed(waiting.pop(0))

    @staticmethod
    def _fail(faults: list[Fault], call: Call) -> None:
        for fault in list(faults):
            happened = fault(call)
            if isinstance(happened, Exception):
                faults.remove(fault)
                raise happened

    @staticmethod
    def _fault(faults: list[Fault], call: Call) -> Answer | None:
        for fault in list(faults):
            happened = fault(call)
            if isinstance(happened, Answer):
                faults.remove(fault)
                return happened
        return None

    def put(self, item: Json) -> Json:
        """Store an object as a controller would write it."""
        kind = next(
            k for k in KINDS if (k.api_version, k.name) == (item["apiVersion"], item["kind"])
        )
        head = item["metadata"]
        head.setdefault("uid", f"uid-{next(self._numbers)}")
        head.setdefault("creationTimestamp", "2026-11-15T03:12:00Z")
        head["resourceVersion"] = str(next(self._numbers))
        self.objects[kind.plural, head.get("namespace", ""), head["name"]] = item
        return item

    def _answer(self, call: Call) -> Answer:
        if call.path.endswith("selfsubjectaccessreviews"):
            wanted = (call.body or {})["spec"]["resourceAttributes"]
            allowed = (wanted["verb"], wanted["resource"]) not in self.denied
            return Answer(201, {"status": {"allowed": allowed}})
        if call.path == "/readyz":
            return Answer(200 if self.ready else 500, {"message": "ok"})
        if call.path == "/apis":
            return Answer(200, {"groups": self._groups()})
        if call.path.startswith("/openapi/"):
            return Answer(200, self.openapi)
        kind, namespace, name = self._parsed(call.path)
        if kind is None:
            return self._discovered(call.path)
        verb = {"GET": "get" if name else "list"}.get(call.method, call.method.lower())
        if (verb, kind.plural) in self.denied:
            return Answer(403, {"message": f"{kind.plural} is forbidden", "reason": "Forbidden"})
        return self._verb(call, kind, namespace, name)

    def _groups(self) -> list[Json]:
        """The groups that are served, as discovery lists them."""
        served = {(k.group, k.version) for k in KINDS if k.group and k not in self.unserved}
        return [
            {
                "name": group,
                "versions": [{"groupVersion": f"{group}/{version}", "version": version}],
            }
            for group, version in sorted(served)
        ]

    def _discovered(self, path: str) -> Answer:
        there = [k for k in KINDS if k.group_path == path and k not in self.unserved]
        if not there:
            return Answer(404, {"message": "the server could not find the requested resource"})
        return Answer(200, {"resources": [{"name": kind.plural} for kind in there]})

    def _parsed(self, path: str) -> tuple[ObjectKind | None, str, str]:
        for kind in KINDS:
            if kind in self.unserved or not path.startswith(f"{kind.group_path}/"):
                continue
            words = path.removeprefix(f"{kind.group_path}/").split("/")
            namespace = ""
            if words[0] == "namespaces" and len(words) > 2:
                namespace, words = words[1], words[2:]
            if words[0] == kind.plural:
                return kind, namespace, words[1] if len(words) > 1 else ""
        return None, "", ""

    def _verb(self, call: Call, kind: ObjectKind, namespace: str, name: str) -> Answer:
        there = self.objects.get((kind.plural, namespace, name))
        if call.method == "GET" and not name:
            return self._listed(call, kind, namespace)
        if call.method == "POST":
            return self._posted(call, kind, namespace)
        if call.method == "PATCH":
            return self._patched(call, there)
        if there is None:
            details = {"name": name, "kind": kind.plural}
            return Answer(404, {"message": f'{kind.plural} "{name}" not found', "details": details})
        if call.method == "DELETE":
            wanted = ((call.body or {}).get("preconditions") or {}).get("uid")
            if wanted and wanted != there["metadata"]["uid"]:
                return Answer(409, {"message": "the UID in the precondition differs"})
            del self.objects[kind.plural, namespace, name]
        return Answer(200, copy.deepcopy(there))

    def _listed(self, call: Call, kind: ObjectKind, namespace: str) -> Answer:
        selector = dict(call.query).get("labelSelector", "")
        found = [
            copy.deepcopy(item)
            for (plural, where, _), item in self.objects.items()
            if plural == kind.plural and (not kind.namespaced or namespace in ("", where))
            if _selected(item, selector)
        ]
        return Answer(
            200, {"metadata": {"resourceVersion": str(next(self._numbers))}, "items": found}
        )

    def _posted(self, call: Call, kind: ObjectKind, namespace: str) -> Answer:
        body = copy.deepcopy(call.body or {})
        if (kind.plural, namespace, body["metadata"]["name"]) in self.objects:
            return Answer(409, {"message": "already exists", "reason": "AlreadyExists"})
        if ("dryRun", "All") in call.query:
            return Answer(201, body)
        _note_manager(call, body)
        return Answer(201, copy.deepcopy(self.put(body)))

    def _patched(self, call: Call, there: Json | None) -> Answer:
        body = copy.deepcopy(call.body or {})
        head = body.get("metadata") or {}
        for key in ("uid", "resourceVersion"):
            looked_at = head.pop(key, None)
            if looked_at and looked_at != ((there or {}).get("metadata") or {}).get(key):
                message = f"the object has been modified: {key}"
                return Answer(409, {"message": message, "reason": "Conflict"})
        merged = _merge(copy.deepcopy(there or {}), body)
        _note_manager(call, merged)
        if ("dryRun", "All") in call.query:
            return Answer(200, merged)
        return Answer(200, copy.deepcopy(self.put(merged)))


def fake_api(transport: FakeTransport, time: FakeTime | None = None, **patience: float) -> Api:
    """An API over a fake server, in fake time."""
    time = time or FakeTime()
    return Api(transport, None, CallPatience(**patience), time.sleep, time.clock)


def once(happens: Answer | Exception, method: str = "", path: str = "") -> Fault:
    """A fault of the next call that is meant."""

    def fault(call: Call) -> Answer | Exception | None:
        meant = (not method or call.method == method) and path in call.path
        return happens if meant else None

    return fault


def event(kind: str, item: Json) -> bytes:
    """One line of a watch."""
    return json.dumps({"type": kind, "object": item}).encode()


def _replayed(script: list[bytes | Exception]) -> Iterator[bytes]:
    for step in script:
        if isinstance(step, Exception):
            raise step
        yield step


def _note_manager(call: Call, item: Json) -> None:
    """Record who wrote to an object and set which labels, as the server does."""
    manager = dict(call.query).get("fieldManager")
    head = (call.body or {}).get("metadata") or {}
    if not manager or "managedFields" in head:
        return
    entry: Json = {"manager": manager, "operation": "Apply" if call.content == APPLY else "Update"}
    entries = item["metadata"].setdefault("managedFields", [])
    there = next((each for each in entries if entry.items() <= each.items()), None)
    if there is None:
        entries.append(there := entry | {"fieldsV1": {"f:metadata": {"f:labels": {}}}})
    labels = there["fieldsV1"]["f:metadata"]["f:labels"]
    labels |= {f"f:{key}": {} for key in head.get("labels") or {}}


def _merge(old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict):
        return old | {key: _merge(old.get(key), value) for key, value in new.items()}
    return new


def _selected(item: Json, selector: str) -> bool:
    labels = item["metadata"].get("labels") or {}
    for part in filter(None, selector.split(",")):
        key, _, value = part.partition("=")
        if key not in labels or (value and labels[key] != value):
            return False
    return True


__all__ = ["FakeTime", "FakeTransport", "RefusedStreamError", "event", "fake_api", "once"]
