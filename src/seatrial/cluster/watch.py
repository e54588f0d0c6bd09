# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Watch objects as they change, across disconnects and restarts of the server.

A list returns the current objects, a watch returns changes since then. An interrupted watch resumes
at the last version seen. If that version is too old (410), a new list starts, and a comparison
finds the changes in between.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from seatrial.cluster.api import Api, ApiTrouble
from seatrial.cluster.errors import error_of
from seatrial.cluster.kinds import ObjectKind
from seatrial.cluster.objects import list_all
from seatrial.cluster.transport import Answer, Call, DroppedError, Json, RefusedStreamError

WATCH_SECONDS = 20
"""The duration of one watch. A dead connection is detected after this time."""


class ChangeKind(StrEnum):
    SEEN = "seen"
    """It is new, or existed at the start."""
    CHANGED = "changed"
    """It has changed."""
    GONE = "gone"
    """It was deleted. The object is as it was last seen."""
    SYNCED = "synced"
    """No change: all existing objects have been seen, and the watch continues."""


@dataclass(frozen=True, slots=True)
class ObjectChange:
    kind: ChangeKind
    object: Json
    """Empty for `synced`."""


class ObjectWatch:
    """Watches the selected objects of one kind."""

    def __init__(
        self, api: Api, kind: ObjectKind, namespace: str, labels: str = "", fields: str = ""
    ) -> None:
        """Select the objects. Sends no request yet."""
        self._api = api
        self._kind = kind
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._known: dict[str, Json] = {}
        self._version = ""

    def changes(self) -> Iterator[ObjectChange]:
        """Yield every change, without end. Raises if the server is down or rejects the watch."""
        trouble = ApiTrouble(self._api)
        while True:
            if not self._version:
                yield from self._listed()
            try:
                for change in self._watched():
                    trouble = ApiTrouble(self._api)
                    yield change
                # A watch that ended normally counts as a success.
                trouble = ApiTrouble(self._api)
                yield ObjectChange(ChangeKind.SYNCED, {})
            except DroppedError as dropped:
                trouble.dropped(str(dropped))
            except RefusedStreamError as refused:
                self._refused(refused.answer, trouble)

    def _refused(self, answer: Answer, trouble: ApiTrouble) -> None:
        """Continue after a watch was rejected, or raise."""
        if answer.status == 410:
            self._version = ""
        elif not trouble.wait_to_retry(answer):
            raise error_of(self._call(), answer)

    def _listed(self) -> Iterator[ObjectChange]:
        """Yield the differences between the known and the current objects."""
        items, version = list_all(
            self._api, self._kind, self._namespace, self._labels, self._fields
        )
        there = {item["metadata"]["uid"]: item for item in items}
        for uid in [uid for uid in self._known if uid not in there]:
            yield ObjectChange(ChangeKind.GONE, self._known.pop(uid))
        for item in there.values():
            yield from self._noted(item)
        self._version = version
        yield ObjectChange(ChangeKind.SYNCED, {})

    def _noted(self, item: Json) -> Iterator[ObjectChange]:
        """Yield the change of an object, if there is one."""
        head = item["metadata"]
        before = self._known.get(head["uid"])
        self._known[head["uid"]] = item
        if before is None:
            yield ObjectChange(ChangeKind.SEEN, item)
        elif before["metadata"].get("resourceVersion") != head.get("resourceVersion"):
            yield ObjectChange(ChangeKind.CHANGED, item)

    def _call(self) -> Call:
        selectors = (("labelSelector", self._labels), ("fieldSelector", self._fields))
        query = (
            *((key, value) for key, value in selectors if value),
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", self._version),
            ("timeoutSeconds", str(WATCH_SECONDS)),
        )
        path, about = self._kind.path(self._namespace), self._kind.about(self._namespace)
        return Call("GET", path, query, about=about, read_seconds=WATCH_SECONDS + 5.0)

    def _watched(self) -> Iterator[ObjectChange]:
        """Yield the changes of one watch until it ends."""
        with self._api.transport.stream(self._call()) as lines:
            for line in lines:
                try:
                    event = json.loads(line)
                except ValueError:
                    # The connection broke within a line.
                    raise DroppedError("the watch was interrupted") from None
                item = event.get("object") or {}
                if event.get("type") == "ERROR":
                    raise RefusedStreamError(Answer(int(item.get("code") or 500), item))
                self._version = item["metadata"]["resourceVersion"]
                if event["type"] == "BOOKMARK":
                    continue
                if event["type"] == "DELETED":
                    self._known.pop(item["metadata"]["uid"], None)
                    yield ObjectChange(ChangeKind.GONE, item)
                else:
                    yield from self._noted(item)
