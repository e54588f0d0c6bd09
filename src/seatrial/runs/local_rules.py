# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What keeps a plan from running on this host: the rules of rendering that are not about pods."""

from pathlib import Path

from seatrial.catalog.catalog import Catalog
from seatrial.checkpoints.engine_setup import setup_of
from seatrial.checkpoints.inventory import State, checkpoints
from seatrial.checkpoints.place import place_at
from seatrial.checkpoints.verdict import Resume, verdict
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, has_errors
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.codes import RenderCode
from seatrial.rendering.rules import Place, plan_findings, scene_findings
from seatrial.rendering.scene import scene_of
from seatrial.runs.codes import RunCode

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
    found += _impossible_resume(plan, place)
    if has_errors(found):
        raise FindingsError(found)


def _of_processes(found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.code not in _OF_PODS]


def _impossible_resume(plan: Plan, place: Place) -> list[Finding]:
    """The newest checkpoint of the run, where it cannot be loaded into what the spec has become."""
    if not Path(plan.checkpoint_location).is_dir():
        return []
    saved = checkpoints(place_at(plan.checkpoint_location))
    newest = next((one for one in saved if one.state is State.COMMITTED), None)
    if newest is None or newest.record is None:
        return []
    answer = verdict(newest.record.setup, setup_of(plan))
    if answer.outcome is not Resume.IMPOSSIBLE:
        return []
    why = answer.reasons[0]
    return [
        Finding(
            RunCode.RESUME,
            Severity.ERROR,
            place("checkpoints.location"),
            f"the run cannot go on from its checkpoint of step {newest.step:,}: {why.what} was "
            f"{why.saved} and is {why.wanted} now.",
            why.wanted,
            "Take that back; or give the run another name, with continue_from and, for another "
            "length or learning rate, reset_schedule: true.",
        )
    ]


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
