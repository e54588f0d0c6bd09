# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which scheduler starts the pods of a run together, and what is rendered for it."""

import pytest

from seatrial.codes.rendering import RenderCode
from seatrial.findings import Finding, Severity
from seatrial.rendering.attempt import Attempt, GangChoice, GangScheduler
from seatrial.rendering.gang import LOCAL_QUEUES, choose_gang
from seatrial.rendering.manifest import Manifest
from seatrial.rendering.render import Part, render
from tests.conftest import resolved
from tests.unit.rendering.scenes import CATALOG, manifests

COSCHEDULING, VOLCANO = "podgroups.scheduling.x-k8s.io", "podgroups.scheduling.volcano.sh"
TRAINJOB = "cluster.operator=trainjob"
HYPERPOD = (
    "cluster={profile: hyperpod-eks, node_type: ml.p4d.24xlarge, nodes: 2, "
    "operator: hyperpod-pytorchjob}"
)


@pytest.mark.parametrize(
    ("overrides", "served", "queues", "expected"),
    [
        ((), (), (), GangChoice(GangScheduler.NONE)),
        ((), (VOLCANO,), (), GangChoice(GangScheduler.VOLCANO)),
        ((), (VOLCANO, COSCHEDULING), (), GangChoice(GangScheduler.COSCHEDULING)),
        ((), (LOCAL_QUEUES, VOLCANO), ("team",), GangChoice(GangScheduler.KUEUE, "team")),
        # Which of several queues a run belongs to is not ours to guess.
        ((), (LOCAL_QUEUES, VOLCANO), ("a", "b"), GangChoice(GangScheduler.VOLCANO)),
        ((), (LOCAL_QUEUES,), (), GangChoice(GangScheduler.NONE)),
        (("cluster.nodes=1",), (VOLCANO,), (), GangChoice(GangScheduler.NONE)),
        (("cluster.gang=none",), (VOLCANO,), (), GangChoice(GangScheduler.NONE)),
        (("cluster.gang=volcano",), (COSCHEDULING,), (), GangChoice(GangScheduler.VOLCANO)),
        (("cluster.queue=own",), (), (), GangChoice(GangScheduler.KUEUE, "own")),
        ((HYPERPOD,), (COSCHEDULING, VOLCANO), (), GangChoice(GangScheduler.NONE)),
        (
            (TRAINJOB, "cluster.operator_version='2.0'"),
            (VOLCANO,),
            (),
            GangChoice(GangScheduler.NONE),
        ),
    ],
)
def test_auto_is_what_the_cluster_offers(
    overrides: tuple[str, ...],
    served: tuple[str, ...],
    queues: tuple[str, ...],
    expected: GangChoice,
) -> None:
    assert choose_gang(resolved(*overrides), served.__contains__, queues) == expected


def job(gang: GangChoice, *overrides: str) -> list[Manifest]:
    return manifests(*overrides, attempt=Attempt(gang=gang))


def test_the_choice_is_rendered_as_if_the_spec_named_it() -> None:
    for scheduler in (GangScheduler.COSCHEDULING, GangScheduler.VOLCANO):
        for operator in ("cluster.operator=pytorchjob", TRAINJOB):
            chosen = job(GangChoice(scheduler), operator)
            named = manifests(f"cluster.gang={scheduler}", operator)
            part = "runPolicy" if operator != TRAINJOB else "podGroupPolicy"
            index = -1 if operator != TRAINJOB else -2
            assert chosen[index]["spec"][part] == named[index]["spec"][part]
            assert "queue-name" not in str(chosen[-1])
    label = "kueue.x-k8s.io/queue-name"
    queued = job(GangChoice(GangScheduler.KUEUE, "team"))[-1]
    assert queued["metadata"]["labels"][label] == "team"


def about_gangs(attempt: Attempt, *overrides: str, part: Part = Part.RUN) -> list[Finding]:
    found = render(resolved(*overrides), CATALOG, part, attempt).findings
    return [each for each in found if each.code == RenderCode.GANG]


def test_manifests_that_no_cluster_was_asked_about_are_noted() -> None:
    (found,) = about_gangs(Attempt())
    assert (found.severity, found.where.field) == (Severity.NOTE, "cluster.gang")
    assert "the 2 pods start one by one" in found.rule
    assert "seatrial launch" in found.fix
    for settled in ("cluster.queue=team", "cluster.gang=none", "cluster.nodes=1"):
        assert about_gangs(Attempt(), settled) == []
    assert about_gangs(Attempt(), part=Part.ADMIN) == []


def test_a_cluster_without_a_gang_scheduler_is_a_warning() -> None:
    (found,) = about_gangs(Attempt(gang=GangChoice(GangScheduler.NONE)))
    assert found.severity is Severity.WARNING
    assert "offers no gang scheduler" in found.rule
    assert about_gangs(Attempt(gang=GangChoice(GangScheduler.VOLCANO))) == []
