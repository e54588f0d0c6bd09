# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Logs that break off: no line twice, none lost."""

from typing import Any

import pytest

from seatrial.cluster.errors import DeniedError
from seatrial.cluster.kinds import POD
from seatrial.cluster.pod_logs import ContainerLog, parsed
from seatrial.cluster.transport import Answer, DroppedError, RefusedStreamError
from tests.unit.cluster.fake_api import FakeTime, FakeTransport, fake_api

LOG = POD.path("lab", "one", "log")


def stamped(second: str, text: str) -> bytes:
    return f"2026-11-15T03:12:{second}Z {text}".encode()


def server_with(phase: str = "Running", restarts: int = 0, **state: Any) -> FakeTransport:
    server = FakeTransport()
    own = {"name": "main", "restartCount": restarts, "state": state or {"running": {}}}
    server.put(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"namespace": "lab", "name": "one", "uid": "u"},
            "status": {"phase": phase, "containerStatuses": [own]},
        }
    )
    return server


def ended(server: FakeTransport) -> None:
    server.objects["pods", "lab", "one"]["status"]["phase"] = "Succeeded"


def texts(server: FakeTransport, time: FakeTime | None = None, **how: Any) -> list[str]:
    log = ContainerLog(fake_api(server, time), "lab", "one", "u", "main")
    return [line.text for line in log.lines(**how)]


def test_times_compare_as_texts_whatever_digits_they_have() -> None:
    assert parsed(b"2026-11-15T03:12:01Z a", "").time == "2026-11-15T03:12:01.000000000"
    assert parsed(b"2026-11-15T03:12:01.1Z a", "").time > parsed(stamped("01.09", "b"), "").time
    assert parsed(b"no time at all", "before").time == "before"
    assert parsed(stamped("01.5", ""), "").text == ""


def test_a_stream_that_breaks_is_taken_up_without_a_line_twice_or_a_gap() -> None:
    server = server_with()
    one, two, three = stamped("01.2", "one"), stamped("01.2", "two"), stamped("01.2", "three")
    server.streams[LOG] = [
        [stamped("00.9", "zero"), one, two, DroppedError("reset")],
        # The server begins with the whole second again.
        [one, two, three, stamped("01.7", "four"), DroppedError("reset")],
        [one, two, three, stamped("01.7", "four"), stamped("02.1", "five")],
    ]
    time = FakeTime()
    time.on_sleep = lambda: ended(server) if len(server.streams[LOG]) < 2 else None
    assert texts(server, time, follow=True) == ["zero", "one", "two", "three", "four", "five"]
    since = [dict(c.query).get("sinceTime") for c in server.calls if c.path == LOG]
    assert since == [None, "2026-11-15T03:12:01Z", "2026-11-15T03:12:01Z"]


def test_the_rest_of_a_container_that_started_again_comes_before_its_new_log() -> None:
    server = server_with()
    server.streams[LOG] = [
        [stamped("01", "first"), DroppedError("reset")],
        [stamped("01", "first"), stamped("02", "last words")],
        [stamped("09", "again")],
    ]
    time = FakeTime()

    def restarted() -> None:
        pod = server.objects["pods", "lab", "one"]
        pod["status"]["containerStatuses"][0]["restartCount"] = 1
        ended(server)

    time.on_sleep = restarted
    assert texts(server, time, follow=True) == ["first", "last words", "again"]
    previous = [dict(c.query).get("previous") for c in server.calls if c.path == LOG]
    assert previous == [None, "true", None]


def test_a_container_that_has_not_started_is_waited_for() -> None:
    server = server_with(waiting={"reason": "PodInitializing"})
    server.streams[LOG] = [[stamped("01", "hello")]]
    time = FakeTime()

    def starts() -> None:
        pod = server.objects["pods", "lab", "one"]
        pod["status"]["containerStatuses"][0]["state"] = {"terminated": {}}
        ended(server)

    time.on_sleep = starts
    assert texts(server, time, follow=True) == ["hello"]
    assert texts(server_with(waiting={})) == []


def test_an_outage_after_a_long_wait_is_measured_from_its_own_beginning() -> None:
    server = server_with(waiting={"reason": "PodInitializing"})
    server.streams[LOG] = [[DroppedError("reset")], [stamped("01", "hello")]]
    time = FakeTime()

    def starts() -> None:
        # Longer than a server may be away.
        if time.now > 600:
            pod = server.objects["pods", "lab", "one"]
            pod["status"]["containerStatuses"][0]["state"] = {"running": {}}
            if len(server.streams[LOG]) < 2:
                ended(server)

    time.on_sleep = starts
    assert texts(server, time, follow=True) == ["hello"]


def test_a_quiet_log_is_no_outage() -> None:
    quiet = DroppedError("Read timed out", is_read_timeout=True)
    server, time = server_with("Succeeded"), FakeTime()
    server.streams[LOG] = [[quiet], [quiet], [stamped("01", "hello")]]
    assert texts(server, time, follow=True) == ["hello"]
    assert time.now == FakeTime().now
    server.streams[LOG] = [[DroppedError("timed out")], [stamped("01", "hello")]]
    assert texts(server, time, follow=True) == ["hello"]
    assert time.now > FakeTime().now


def test_a_pod_that_is_gone_or_another_has_no_log() -> None:
    server = server_with()
    server.objects.clear()
    assert texts(server) == []
    other = server_with()
    other.objects["pods", "lab", "one"]["metadata"]["uid"] = "another"
    assert texts(other) == []


def test_a_kubelet_that_is_not_ready_is_asked_again() -> None:
    server = server_with("Succeeded")
    busy = RefusedStreamError(Answer(500, {"message": "dial tcp: connection refused"}))
    server.streams[LOG] = [[busy], [stamped("01", "hello")]]
    assert texts(server, follow=True) == ["hello"]
    forbidden = RefusedStreamError(Answer(403, {"message": "pods/log is forbidden"}))
    server.streams[LOG] = [[forbidden]]
    with pytest.raises(DeniedError):
        texts(server)
