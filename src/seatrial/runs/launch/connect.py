# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Connect to a cluster, and adapt the plan to the APIs that it serves."""

from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from seatrial.catalog.catalog import Catalog
from seatrial.catalog.profiles import Profile
from seatrial.cluster.api import Api, CallPatience
from seatrial.cluster.discovery import served_operators, trainer_form
from seatrial.codes.runs import RunCode
from seatrial.errors import FindingsError, MissingExtraError
from seatrial.findings import Finding, Severity
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt, own_digest
from seatrial.rendering.render import Part, Rendering, render
from seatrial.rendering.rules import Place
from seatrial.rendering.train_job import NEWEST, TrainerApi, trainer_api
from seatrial.runs.launch.diff import Comparison, compare
from seatrial.runs.launch.kubernetes import gang_in
from seatrial.runs.namespace import Site, Tell
from seatrial.spec.cluster import Operator

if TYPE_CHECKING:
    from seatrial.cluster.port_forward import Forward


def suited(
    plan: Plan,
    profile: Profile,
    served: tuple[Operator, ...],
    form: TrainerApi | None,
    place: Place,
) -> Plan:
    """Adapt the plan to an operator and API version that the cluster serves.

    The spec has priority: if it names an operator that the cluster lacks, this raises. If it leaves
    the choice open, this selects the first of the profile's operators that the cluster serves.
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
    # A spec without a version means the newest API.
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
    fix = f"Use cluster.operator={others[0]}, or install" if others else "Install"
    return Finding(
        RunCode.NO_OPERATOR,
        Severity.ERROR,
        place("cluster.operator"),
        f"the cluster has no operator {operator}; it has {there or 'no training operator'}.",
        str(operator),
        f"{fix} {operator}.",
    )


LOOKING = CallPatience(outage=15.0, failing=15.0, recovery=15.0)
"""How long a read-only command waits for the cluster, because a user is waiting."""


def require_cluster_extra() -> None:
    """Raise if the Kubernetes client is not installed."""
    if find_spec("kubernetes") is None:
        raise MissingExtraError(
            "connecting to a cluster needs the Kubernetes client, which is not installed. "
            "To install it, in a Seatrial checkout, run: pip install '.[cluster]'",
            extra="cluster",
        )


def connect(
    namespace: str = "",
    *,
    kubeconfig: str = "",
    context: str = "",
    tell: Tell | None = None,
    patience: CallPatience | None = None,
) -> Site:
    """Connect to a namespace in a cluster. Sends no request yet.

    Args:
        namespace: The namespace. Default: the context's.
        kubeconfig: The kubeconfig. Default: KUBECONFIG, else ~/.kube/config.
        context: The kubeconfig context. Default: the current one.
        tell: Receives progress messages, such as about an API server that does not respond.
        patience: How long to wait for the API server. Default: as long as a launch does.
    """
    require_cluster_extra()
    # Imported here because it imports the Kubernetes client.
    from seatrial.cluster.connection import (  # noqa: PLC0415
        ClientTransport,
        Target,
        context_namespace,
    )

    target = Target(kubeconfig, context)
    heard = tell or (lambda _: None)
    api = Api(ClientTransport(target), heard, patience)
    return Site(api, namespace or context_namespace(target), heard)


def fitting(site: Site, plan: Plan, catalog: Catalog, place: Place) -> Plan:
    """Adapt the plan to an operator and API version that the cluster serves."""
    served = served_operators(site.api)
    form = trainer_form(site.api) if Operator.TRAINJOB in served else None
    return suited(plan, catalog.profile(plan.machines.profile), served, form, place)


def compared(
    site: Site, plan: Plan, catalog: Catalog, part: Part, place: Place
) -> tuple[list[Comparison], Rendering]:
    """Return what applying the manifests of a plan would change, without changing it."""
    fit = fitting(site, plan, catalog, place)
    newest = site.ledgers.read(fit.spec.name).newest
    attempt = Attempt(code_digest=own_digest(), gang=gang_in(site, fit))
    if newest is not None:
        # Use the number of the current attempt, so that it is not a difference.
        number, excluded = newest.number, newest.excluded_nodes
        gang = newest.gang_choice or attempt.gang
        attempt = Attempt(number, excluded, own_digest(), newest.submission, gang)
    made = render(fit, catalog, part, attempt, place)
    return compare(site, made), made


def forward_to(site: Site, pod: str, port: int, local: int) -> "Forward":
    """Forward a local port to a port of a pod. Call `serve` to handle connections."""
    # Imported here because it imports the Kubernetes client.
    from seatrial.cluster.port_forward import Forward  # noqa: PLC0415

    return Forward(site.api.transport, site.namespace, pod, port, local, site.tell)
