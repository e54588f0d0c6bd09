# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What applying would change, field by field."""

from seatrial.cluster.transport import Answer
from seatrial.runs.launch.diff import DiffVerdict, compare
from seatrial.runs.launch.differences import ABSENT, FieldDifference, differences
from tests.unit.cluster.fake_api import FakeTransport, once
from tests.unit.runs.fake_cluster import launch, rendered, site_of, wanted


def test_every_object_of_a_new_run_is_new_and_nothing_is_made() -> None:
    server = FakeTransport()
    found = compare(site_of(server), rendered(wanted()))
    assert {each.verdict for each in found} == {DiffVerdict.NEW}
    assert not server.objects


def test_a_launched_run_is_the_same_and_a_changed_one_says_where() -> None:
    server = FakeTransport()
    launch(site_of(server), wanted(), lambda _: False)
    (first,) = site_of(server).ledgers.read(wanted().plan.spec.name).attempts
    same = compare(site_of(server), rendered(wanted(), first.submission))
    assert {each.verdict for each in same} == {DiffVerdict.SAME}
    other = compare(site_of(server), rendered(wanted("training.seed=7")))
    verdicts = {each.name: each.verdict for each in other}
    assert verdicts["PyTorchJob slim-7b"] is DiffVerdict.CHANGED
    assert verdicts["Service slim-7b--meeting"] is DiffVerdict.SAME
    job = next(each for each in other if each.name.startswith("PyTorchJob"))
    seeds = [change for change in job.changes if change.after == "7"]
    assert len(seeds) == 2
    assert "containers[pytorch].command[" in seeds[0].path
    # The spec is one text to the server, and a spec to its owner.
    spec = next(each for each in other if each.name == "ConfigMap slim-7b--spec")
    assert [str(change) for change in spec.changes] == ["+ data.run.yaml.training.seed: 7"]


def test_what_the_server_refuses_is_told_and_the_rest_still_compared() -> None:
    server = FakeTransport()
    refusal = Answer(422, {"message": "spec.x: Invalid value"})
    server.faults.append(once(refusal, "PATCH", "services"))
    found = compare(site_of(server), rendered(wanted()))
    refused = [each for each in found if each.verdict is DiffVerdict.REFUSED]
    assert len(refused) == 1
    assert refused[0].finding is not None
    assert "Invalid value" in refused[0].finding.rule
    assert len(found) == len(rendered(wanted()).manifests)


def test_fields_are_compared_by_name_and_lists_of_named_things_by_their_names() -> None:
    before = {"a": 1, "list": [{"name": "x", "v": 1}, {"name": "y", "v": 2}], "words": ["p", "q"]}
    after = {"b": None, "list": [{"name": "y", "v": 3}, {"name": "x", "v": 1}], "words": ["p"]}
    assert differences(before, after) == [
        FieldDifference("a", 1, ABSENT),
        FieldDifference("list[y].v", 2, 3),
        FieldDifference("words[1]", "q", ABSENT),
        FieldDifference("b", ABSENT, None),
    ]
    assert str(FieldDifference("x.y", 1, 2)) == "~ x.y: 1 → 2"
    assert str(FieldDifference("x", ABSENT, "new")) == '+ x: "new"'
    assert str(FieldDifference("x", [1], ABSENT)) == "- x: [1]"


def test_differences_have_no_secrets() -> None:
    def pod(secret: str) -> dict[str, object]:
        return {
            "env": [{"name": "HF_TOKEN", "value": secret}, {"name": "A", "value": f"a {secret}"}],
            "command": ["login", "--password", secret, "--verbose"],
            "auth": {"client_secret": secret, "list": [{"password": secret}]},
            "long": f"{'x' * 110} hf_{'aB3' * 10}{secret[-3:]}",
        }

    found = differences(pod("hunter22"), pod("hunter33"))
    found += differences({}, {"new": pod("hunter22")}) + differences({"old": pod("hunter22")}, {})
    shown = [each for each in found if "[A]" not in each.path]
    assert [each.path for each in shown][:5] == [
        "env[HF_TOKEN].value",
        "command[2]",
        "auth.client_secret",
        "auth.list[0].password",
        "long",
    ]
    for each in shown:
        assert "hunter" not in f"{each} {each.to_dict()}".replace("a hunter22", "")
        assert "aB" not in str(each)
