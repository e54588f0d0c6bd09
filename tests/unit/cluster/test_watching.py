# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Watches that go on after drops, and start over when their version is too old."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from seatrial.cluster.errors import DeniedError
from seatrial.cluster.kinds import POD
from seatrial.cluster.transport import Answer, DroppedError, Json, RefusedStreamError
from seatrial.cluster.watch import ChangeKind, ObjectWatch
from tests.unit.cluster.fake_api import FakeTransport, event, fake_api

PODS = POD.path("lab")


def pod(name: str, version: str = "", uid: str = "") -> Json:
    head = {"namespace": "lab", "name": name, "uid": uid or name}
    if version:
        head["resourceVersion"] = version
    return {"apiVersion": "v1", "kind": "Pod", "metadata": head}


def seen(server: FakeTransport, number: int) -> list[tuple[ChangeKind, str]]:
    changes = ObjectWatch(fake_api(server), POD, "lab").changes()
    real = (change for change in changes if change.kind is not ChangeKind.SYNCED)
    return [(c.kind, c.object["metadata"]["name"]) for c in islice(real, number)]


def versions(server: FakeTransport) -> list[str]:
    watches = [dict(call.query) for call in server.calls if ("watch", "true") in call.query]
    return [query["resourceVersion"] for query in watches]


def test_what_is_there_is_seen_and_then_what_changes() -> None:
    server = FakeTransport()
    server.put(pod("a"))
    server.streams[PODS] = [[event("ADDED", pod("b", "70")), event("DELETED", pod("a", "71"))]]
    assert seen(server, 3) == [
        (ChangeKind.SEEN, "a"),
        (ChangeKind.SEEN, "b"),
        (ChangeKind.GONE, "a"),
    ]


def test_a_watch_that_breaks_off_goes_on_from_the_last_version() -> None:
    server = FakeTransport()
    server.streams[PODS] = [
        [event("ADDED", pod("a", "70")), DroppedError("reset")],
        [event("BOOKMARK", pod("", "90", "none")), b'{"type":"MODIF'],
        [event("MODIFIED", pod("a", "91"))],
    ]
    assert seen(server, 2) == [(ChangeKind.SEEN, "a"), (ChangeKind.CHANGED, "a")]
    assert versions(server)[1:] == ["70", "90"]


def test_an_event_that_comes_twice_is_told_once() -> None:
    server = FakeTransport()
    server.streams[PODS] = [
        [event("ADDED", pod("a", "70")), DroppedError("reset")],
        [event("ADDED", pod("a", "70")), event("ADDED", pod("b", "71"))],
    ]
    assert seen(server, 2) == [(ChangeKind.SEEN, "a"), (ChangeKind.SEEN, "b")]


@pytest.mark.parametrize("as_event", [True, False])
def test_a_version_that_is_too_old_means_a_new_list_and_a_comparison(as_event: bool) -> None:
    server = FakeTransport()
    server.put(pod("stays"))
    gone = server.put(pod("goes"))
    expired = {"code": 410, "message": "too old resource version"}

    class Script(list):  # type: ignore[type-arg]
        """While the watch is away, one pod goes and one comes."""

        def __iter__(self) -> Iterator[Any]:
            server.objects.pop(("pods", "lab", "goes"), None)
            server.put(pod("comes"))
            return super().__iter__()

    if as_event:
        broken = Script([event("ERROR", expired)])
    else:
        broken = Script([RefusedStreamError(Answer(410, expired))])
    server.streams[PODS] = [broken]
    assert seen(server, 4) == [
        (ChangeKind.SEEN, "stays"),
        (ChangeKind.SEEN, "goes"),
        (ChangeKind.GONE, "goes"),
        (ChangeKind.SEEN, "comes"),
    ]
    assert gone["metadata"]["name"] == "goes"


def test_a_watch_that_is_denied_is_an_error() -> None:
    server = FakeTransport()
    denied = RefusedStreamError(Answer(403, {"message": "pods is forbidden"}))
    server.streams[PODS] = [[denied]]
    with pytest.raises(DeniedError):
        seen(server, 1)
