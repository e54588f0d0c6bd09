# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Following objects as they change, through drops of the connection and restarts of the server.

A list says what there is, a watch what changes since. A watch that ends is taken up at the last
version that was seen; one whose version is too old (410) begins with a new list, and what changed
in between is found by comparing.
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
"""A watch is renewed so often: a connection that died in silence is found out by then."""


class ChangeKind(StrEnum):
    """What happened to an object."""

    SEEN = "seen"
    """It is new, or was there at the beginning."""
    CHANGED = "changed"
    """It is another than before."""
    GONE = "gone"
    """It was deleted; the object is as it was last seen."""
    SYNCED = "synced"
    """Nothing happened: all that there is has been seen, and the watch goes on."""


@dataclass(frozen=True, slots=True)
class ObjectChange:
    kind: ChangeKind
    object: Json
    """The object; empty for `synced`."""


class ObjectWatch:
    """The objects of one kind that are selected, as they change."""

    def __init__(
        self, api: Api, kind: ObjectKind, namespace: str, labels: str = "", fields: str = ""
    ) -> None:
        """Say what is followed; nothing is asked yet."""
        self._api = api
        self._kind = kind
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._known: dict[str, Json] = {}
        self._version = ""

    def changes(self) -> Iterator[ObjectChange]:
        """Every change, for ever; raises when the server stays away or refuses."""
        trouble = ApiTrouble(self._api)
        while True:
            if not self._version:
                yield from self._listed()
            try:
                for change in self._watched():
                    trouble = ApiTrouble(self._api)
                    yield change
                # A watch that came to its end is as good as one that brought something.
                trouble = ApiTrouble(self._api)
                yield ObjectChange(ChangeKind.SYNCED, {})
            except DroppedError as dropped:
                trouble.dropped(str(dropped))
            except RefusedStreamError as refused:
                self._refused(refused.answer, trouble)

    def _refused(self, answer: Answer, trouble: ApiTrouble) -> None:
        """Go on after a watch was answered with an error, or raise."""
        if answer.status == 410:
            self._version = ""
        elif not trouble.mends(answer):
            raise error_of(self._call(), answer)

    def _listed(self) -> Iterator[ObjectChange]:
        """What differs between what was known and what there is."""
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
        """The change that an object is, if it is one."""
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
        """The changes of one watch, until it ends."""
        with self._api.transport.stream(self._call()) as lines:
            for line in lines:
                try:
                    event = json.loads(line)
                except ValueError:
                    # The connection broke in the middle of a line.
                    raise DroppedError("the watch broke off") from None
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
