# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Gang scheduling: decide which component of a cluster starts all pods of a run together."""

from collections.abc import Callable, Sequence

from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import GangChoice, GangScheduler
from seatrial.rendering.train_job import TrainerApi, trainer_api
from seatrial.spec.cluster import Gang, Operator

LOCAL_QUEUES = "localqueues.kueue.x-k8s.io"
"""The CRD of Kueue's local queues."""
POD_GROUPS = {
    Gang.COSCHEDULING: "podgroups.scheduling.x-k8s.io",
    Gang.VOLCANO: "podgroups.scheduling.volcano.sh",
}
"""The CRD of each gang scheduler."""


def is_open(plan: Plan) -> bool:
    """True if the spec leaves the choice to the cluster: `gang: auto`, no queue, several nodes."""
    cluster = plan.spec.cluster
    return cluster.gang is Gang.AUTO and cluster.queue is None and plan.machines.nodes > 1


def choose_gang(plan: Plan, serves: Callable[[str], bool], queues: Sequence[str]) -> GangChoice:
    """Choose the gang scheduler of an attempt.

    Args:
        plan: The plan.
        serves: True if the cluster serves a CRD.
        queues: Kueue's local queues of the run's namespace. With more than one, the choice is the
            user's: queues have different quotas and priorities.
    """
    cluster, operator = plan.spec.cluster, plan.machines.operator
    if cluster.queue is not None:
        return GangChoice(GangScheduler.KUEUE, cluster.queue)
    if not is_open(plan):
        named = cluster.gang if cluster.gang is not Gang.AUTO else Gang.NONE
        return GangChoice(GangScheduler(named))
    if len(queues) == 1 and serves(LOCAL_QUEUES):
        return GangChoice(GangScheduler.KUEUE, queues[0])
    supported = [Gang.COSCHEDULING, Gang.VOLCANO]
    if operator is Operator.HYPERPOD:
        supported = []
    elif operator is Operator.TRAINJOB and trainer_api(cluster.operator_version) is TrainerApi.V2_0:
        supported = [Gang.COSCHEDULING]
    for gang in supported:
        if serves(POD_GROUPS[gang]):
            return GangChoice(GangScheduler(gang))
    return GangChoice(GangScheduler.NONE)
