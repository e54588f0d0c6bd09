# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Calls through outages: what is tried again, for how long, and what an error says."""

import pytest

from seatrial.cluster import objects
from seatrial.cluster.errors import (
    ClusterError,
    ConflictError,
    DeniedError,
    NotServedError,
    UnreachableError,
    error_of,
)
from seatrial.cluster.kinds import CONFIG_MAP, PYTORCH_JOB
from seatrial.cluster.transport import Answer, Call, DroppedError
from seatrial.codes.cluster import ClusterCode
from seatrial.errors import ExitCode
from tests.unit.cluster.fake_api import FakeTime, FakeTransport, fake_api, once

MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "lab", "name": "one"}}


def test_a_server_that_is_away_for_a_minute_is_waited_for() -> None:
    server, time = FakeTransport(), FakeTime()
    server.put(dict(MAP))

    def away(_: Call) -> None:
        if time.now < 60:
            raise DroppedError("refused")

    server.instead = away
    found = objects.read(fake_api(server, time), CONFIG_MAP, "lab", "one")
    assert found is not None
    assert 60 <= time.now < 70


def test_a_server_that_stays_away_ends_in_an_error_with_its_address() -> None:
    server, time = FakeTransport(), FakeTime()

    def away(_: Call) -> None:
        raise DroppedError("connection refused")

    server.instead = away
    with pytest.raises(UnreachableError) as caught:
        objects.read(fake_api(server, time, outage=30.0), CONFIG_MAP, "lab", "one")
    assert caught.value.exit_code == ExitCode.CLUSTER
    assert "https://cluster.example" in str(caught.value)
    assert "connection refused" in str(caught.value)
    assert 30 < time.now < 45


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_an_error_of_the_server_is_tried_again(status: int) -> None:
    server = FakeTransport()
    server.put(dict(MAP))
    server.faults.append(once(Answer(status, {"message": "busy"})))
    assert objects.read(fake_api(server), CONFIG_MAP, "lab", "one") is not None
    assert len(server.calls) == 2


def test_the_server_says_how_long_to_wait() -> None:
    server, time = FakeTransport(), FakeTime()
    server.put(dict(MAP))
    server.faults.append(once(Answer(429, {"message": "slow down"}, retry_after=3.0)))
    objects.read(fake_api(server, time), CONFIG_MAP, "lab", "one")
    assert time.slept == [3.0]


def test_an_expired_token_is_renewed_once() -> None:
    server = FakeTransport()
    server.put(dict(MAP))
    server.faults.append(once(Answer(401, {"message": "Unauthorized"})))
    assert objects.read(fake_api(server), CONFIG_MAP, "lab", "one") is not None
    assert server.renewed == 1


def test_credentials_that_stay_wrong_are_an_error() -> None:
    server = FakeTransport()
    server.instead = lambda _: Answer(401, {"message": "Unauthorized"})
    with pytest.raises(ClusterError, match="Log in again") as caught:
        objects.read(fake_api(server), CONFIG_MAP, "lab", "one")
    assert caught.value.code is ClusterCode.CREDENTIALS


def test_denials_count_at_once_but_not_while_the_server_starts() -> None:
    server, time = FakeTransport(), FakeTime()
    server.put(dict(MAP))
    server.denied.add(("get", "configmaps"))
    with pytest.raises(DeniedError, match="seatrial-launcher"):
        objects.read(fake_api(server, time), CONFIG_MAP, "lab", "one")
    assert time.now == 0
    time.on_sleep = lambda: server.denied.clear() if time.now > 2 else None
    server.faults.append(once(DroppedError("reset")))
    assert objects.read(fake_api(server, time), CONFIG_MAP, "lab", "one") is not None


def test_a_denial_after_a_long_outage_is_waited_out_too() -> None:
    server, time = FakeTransport(), FakeTime()
    server.put(dict(MAP))
    server.denied.add(("get", "configmaps"))

    def away(_: Call) -> None:
        if time.now < 90:
            raise DroppedError("refused")
        server.ready = time.now > 110
        if time.now > 111:
            server.denied.clear()

    server.instead = away
    assert objects.read(fake_api(server, time), CONFIG_MAP, "lab", "one") is not None
    assert 110 < time.now < 120


def test_a_server_that_has_just_started_may_not_know_an_account_yet() -> None:
    server, time = FakeTransport(), FakeTime()
    server.put(dict(MAP))

    def starts(_: Call) -> Answer | None:
        if time.now < 60:
            raise DroppedError("refused")
        # It answers so to all that it is asked, also whether it is ready.
        return Answer(401, {"message": "Unauthorized"}) if time.now < 100 else None

    server.instead = starts
    assert objects.read(fake_api(server, time), CONFIG_MAP, "lab", "one") is not None
    assert 100 <= time.now < 110


def test_a_denial_that_is_meant_is_believed_soon_after_an_outage() -> None:
    server, time = FakeTransport(), FakeTime()
    server.denied.add(("get", "configmaps"))
    server.faults.append(once(DroppedError("reset")))
    with pytest.raises(DeniedError):
        objects.read(fake_api(server, time), CONFIG_MAP, "lab", "one")
    assert time.now < 10


def test_denials_do_not_count_while_the_server_says_that_it_is_not_ready() -> None:
    server, time = FakeTransport(), FakeTime()
    server.put(dict(MAP))
    server.denied.add(("get", "configmaps"))
    server.ready = False

    def comes_up() -> None:
        if time.now > 20:
            server.denied.clear()
            server.ready = True

    time.on_sleep = comes_up
    assert objects.read(fake_api(server, time), CONFIG_MAP, "lab", "one") is not None
    server.denied.add(("get", "configmaps"))
    server.ready, time.now = False, 0.0
    assert objects.may(fake_api(server, time), "get", CONFIG_MAP, "lab")
    server.denied.add(("get", "configmaps"))
    server.ready = True
    assert not objects.may(fake_api(server, time), "get", CONFIG_MAP, "lab")


def test_an_absent_object_is_nothing_and_an_unknown_kind_an_error() -> None:
    server = FakeTransport(unserved=(PYTORCH_JOB,))
    assert objects.read(fake_api(server), CONFIG_MAP, "lab", "two") is None
    with pytest.raises(NotServedError, match="Install its operator"):
        objects.read(fake_api(server), PYTORCH_JOB, "lab", "two")


def test_a_name_that_is_taken_is_a_conflict_also_when_the_answer_was_lost() -> None:
    server = FakeTransport()
    server.after.append(once(DroppedError("reset"), "POST"))
    with pytest.raises(ConflictError):
        objects.create(fake_api(server), dict(MAP))
    assert ("configmaps", "lab", "one") in server.objects


def test_deleting_again_after_a_lost_answer_leaves_the_next_of_the_name_alone() -> None:
    server = FakeTransport()
    first = server.put({**MAP, "metadata": {**MAP["metadata"], "uid": "first"}})  # type: ignore[dict-item]
    server.after.append(once(DroppedError("reset"), "DELETE"))
    api = fake_api(server, on_gone(server))
    assert not objects.delete(api, CONFIG_MAP, "lab", "one", uid=first["metadata"]["uid"])
    assert server.objects["configmaps", "lab", "one"]["metadata"]["uid"] == "second"


def on_gone(server: FakeTransport) -> FakeTime:
    """While the client pauses, somebody makes another object of the name."""
    time = FakeTime()
    second = {**MAP, "metadata": {"namespace": "lab", "name": "one", "uid": "second"}}

    def meanwhile() -> None:
        server.put(second)

    time.on_sleep = meanwhile
    return time


@pytest.mark.parametrize(
    ("status", "said", "code"),
    [
        (403, 'pods "a" is forbidden: exceeded quota: gpus', ClusterCode.INVALID),
        (403, 'pods is forbidden: User "x" cannot list', ClusterCode.DENIED),
        (422, "spec.template: Invalid value", ClusterCode.INVALID),
        (400, 'strict decoding error: unknown field "spec.ttl"', ClusterCode.INVALID),
        (500, "failed calling webhook", ClusterCode.FAILING),
    ],
)
def test_every_refusal_says_what_was_meant_and_what_to_do(
    status: int, said: str, code: ClusterCode
) -> None:
    call = Call("POST", "/x", about="PyTorchJob lab/one")
    error = error_of(call, Answer(status, {"message": said}))
    assert error.code is code
    (finding,) = error.findings
    assert str(finding.where) == "PyTorchJob lab/one"
    assert said.rstrip(".") in finding.rule
    assert finding.fix


def test_a_list_is_read_page_by_page_and_begun_again_when_it_is_too_old() -> None:
    pages = [
        Answer(200, {"metadata": {"continue": "next", "resourceVersion": "1"}, "items": [MAP]}),
        Answer(410, {"message": "too old"}),
        Answer(200, {"metadata": {"continue": "next", "resourceVersion": "2"}, "items": [MAP]}),
        Answer(200, {"metadata": {"resourceVersion": "2"}, "items": [MAP]}),
    ]
    server = FakeTransport()
    server.instead = lambda _: pages.pop(0)
    found, version = objects.list_all(fake_api(server), CONFIG_MAP, "lab")
    assert len(found) == 2
    assert version == "2"


def test_an_apply_changes_only_the_object_that_was_looked_at() -> None:
    server = FakeTransport()
    api = fake_api(server)
    there = objects.create(api, dict(MAP))
    server.put({**MAP, "metadata": {"name": "one", "namespace": "lab", "labels": {"of": "us"}}})
    with pytest.raises(ConflictError):
        objects.apply_over(api, dict(MAP), there)
    del server.objects["configmaps", "lab", "one"]
    with pytest.raises(ConflictError):
        objects.apply_over(api, dict(MAP), there)
    assert not server.objects


def test_fields_of_an_object_that_was_created_are_noted_as_applied_once() -> None:
    server = FakeTransport()
    api = fake_api(server)
    for _ in range(2):
        there = objects.read(api, CONFIG_MAP, "lab", "one") or objects.create(api, dict(MAP))
        objects.apply_over(api, dict(MAP), there)
    noted = [c for c in server.calls if "managedFields" in ((c.body or {}).get("metadata") or {})]
    assert len(noted) == 1
    (entry,) = server.objects["configmaps", "lab", "one"]["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"]) == ("seatrial", "Apply")
