# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What applying would change, field by field."""

from seatrial.cluster.transport import Answer
from seatrial.runs.comparison import Verdict, compare
from seatrial.runs.differences import ABSENT, Difference, differences
from seatrial.runs.launch import launch
from tests.unit.cluster.fake_api import FakeTransport, once
from tests.unit.runs.fake_cluster import site_of, wanted


def test_every_object_of_a_new_run_is_new_and_nothing_is_made() -> None:
    server = FakeTransport()
    found = compare(site_of(server), wanted().rendered(1, ()))
    assert {each.verdict for each in found} == {Verdict.NEW}
    assert not server.objects


def test_a_launched_run_is_the_same_and_a_changed_one_says_where() -> None:
    server = FakeTransport()
    launch(site_of(server), wanted(), lambda _: False)
    (first,) = site_of(server).ledgers.read(wanted().plan.spec.name).attempts
    same = compare(site_of(server), wanted().rendered(1, (), first.submission))
    assert {each.verdict for each in same} == {Verdict.SAME}
    other = compare(site_of(server), wanted("training.seed=7").rendered(1, ()))
    verdicts = {each.name: each.verdict for each in other}
    assert verdicts["PyTorchJob slim-7b"] is Verdict.CHANGED
    assert verdicts["Service slim-7b-meeting"] is Verdict.SAME
    job = next(each for each in other if each.name.startswith("PyTorchJob"))
    seeds = [change for change in job.changes if change.after == "7"]
    assert len(seeds) == 2
    assert "containers[pytorch].command[" in seeds[0].path
    # The spec is one text to the server, and a spec to its owner.
    spec = next(each for each in other if each.name == "ConfigMap slim-7b-spec")
    assert [str(change) for change in spec.changes] == ["+ data.run.yaml.training.seed: 7"]


def test_what_the_server_refuses_is_told_and_the_rest_still_compared() -> None:
    server = FakeTransport()
    refusal = Answer(422, {"message": "spec.x: Invalid value"})
    server.faults.append(once(refusal, "PATCH", "services"))
    found = compare(site_of(server), wanted().rendered(1, ()))
    refused = [each for each in found if each.verdict is Verdict.REFUSED]
    assert len(refused) == 1
    assert refused[0].finding is not None
    assert "Invalid value" in refused[0].finding.rule
    assert len(found) == len(wanted().rendered(1, ()).manifests)


def test_fields_are_compared_by_name_and_lists_of_named_things_by_their_names() -> None:
    before = {"a": 1, "list": [{"name": "x", "v": 1}, {"name": "y", "v": 2}], "words": ["p", "q"]}
    after = {"b": None, "list": [{"name": "y", "v": 3}, {"name": "x", "v": 1}], "words": ["p"]}
    assert differences(before, after) == [
        Difference("a", 1, ABSENT),
        Difference("list[y].v", 2, 3),
        Difference("words[1]", "q", ABSENT),
        Difference("b", ABSENT, None),
    ]
    assert str(Difference("x.y", 1, 2)) == "~ x.y: 1 → 2"
    assert str(Difference("x", ABSENT, "new")) == '+ x: "new"'
    assert str(Difference("x", [1], ABSENT)) == "- x: [1]"
