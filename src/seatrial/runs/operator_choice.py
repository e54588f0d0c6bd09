# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Which operator a run is rendered for, given what the cluster serves."""

from dataclasses import replace

from seatrial.catalog.profiles import Profile
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity
from seatrial.planning.plan import Plan
from seatrial.rendering.rules import Place
from seatrial.rendering.train_job import NEWEST, TrainerApi, trainer_api
from seatrial.runs.codes import RunCode
from seatrial.spec.cluster import Operator


def suited(
    plan: Plan,
    profile: Profile,
    served: tuple[Operator, ...],
    form: TrainerApi | None,
    place: Place,
) -> Plan:
    """The plan for an operator that the cluster has, in the form that it serves.

    What the spec says stays: an operator that it names and the cluster lacks is refused. Of a
    spec that leaves the choice, the first of the profile's operators that is served is taken.
    """
    operator = plan.machines.operator
    if operator not in served:
        others = [each for each in profile.operators if each in served]
        if plan.spec.cluster.operator is not Operator.AUTO or not others:
            raise FindingsError([_missing(operator, served, others, place)])
        operator = others[0]
    changes: dict[str, object] = {}
    if operator is not plan.machines.operator:
        changes["operator"] = operator
    # The newest form is what a spec without a version means in any case.
    older = operator is Operator.TRAINJOB and form not in (None, trainer_api(NEWEST))
    if older and plan.spec.cluster.operator_version is None:
        changes["operator_version"] = str(form)
    if not changes:
        return plan
    cluster = plan.spec.cluster.model_copy(update=changes)
    return replace(
        plan,
        spec=plan.spec.model_copy(update={"cluster": cluster}),
        machines=replace(plan.machines, operator=operator),
    )


def _missing(
    operator: Operator, served: tuple[Operator, ...], others: list[Operator], place: Place
) -> Finding:
    there = ", ".join(served)
    fix = f"Use cluster.operator={others[0]}, or install it." if others else "Install it first."
    return Finding(
        RunCode.NO_OPERATOR,
        Severity.ERROR,
        place("cluster.operator"),
        f"the cluster does not serve {operator}; it serves {there or 'no training operator'}.",
        str(operator),
        fix,
    )
