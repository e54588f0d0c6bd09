# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What keeps a plan from running on this host: the rules of rendering that are not about pods."""

from seatrial.catalog.catalog import Catalog
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, has_errors
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.codes import RenderCode
from seatrial.rendering.rules import Place, plan_findings, scene_findings
from seatrial.rendering.scene import scene_of

_OF_PODS = (
    *(RenderCode.OPERATOR, RenderCode.OPERATOR_VERSION, RenderCode.DAEMON, RenderCode.IMAGE),
    *(RenderCode.VOLUME, RenderCode.MOUNT, RenderCode.LOCATION),
)
"""Rules about manifests, images and volumes, of which torchrun on a host has none."""


def refuse_unfit_here(plan: Plan, catalog: Catalog, place: Place) -> None:
    """Raise with every reason why this host cannot run a plan, before anything is touched."""
    found = _of_processes(plan_findings(plan, place))
    found += _of_processes(scene_findings(scene_of(plan, catalog, Attempt()), place))
    if plan.machines.nodes > 1:
        found.append(_several_nodes(plan, place))
    if has_errors(found):
        raise FindingsError(found)


def _of_processes(found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.code not in _OF_PODS]


def _several_nodes(plan: Plan, place: Place) -> Finding:
    nodes, profile = plan.machines.nodes, plan.machines.profile
    return Finding(
        RenderCode.OPERATOR,
        Severity.ERROR,
        place("cluster.nodes"),
        f"the profile {profile} starts torchrun on this host, which is one node: the others would "
        "be waited for in vain.",
        str(nodes),
        "Use cluster.nodes=1 with more processes_per_node, or a profile with Kubernetes.",
    )
