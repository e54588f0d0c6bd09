# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes manifests of a run: render them, and compare them with a cluster."""

from collections.abc import Sequence
from dataclasses import dataclass

from seatrial.catalog.catalog import default_catalog
from seatrial.findings import Finding, Severity
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt, own_digest
from seatrial.rendering.render import Part, Rendering
from seatrial.rendering.render import render as render_plan
from seatrial.runs.launch.connect import compared
from seatrial.runs.launch.diff import Comparison
from seatrial.runs.namespace import Tell
from seatrial.sdk.plan import Overrides, PathOrText, load_plan
from seatrial.sdk.runs import connect_to_look
from seatrial.spec.placeholders import placeholders


def render(path: PathOrText, overrides: Overrides = (), part: Part | str = "run") -> Rendering:
    """Render the Kubernetes manifests of a run as plain data, without a cluster.

    Args:
        path: The spec.
        overrides: Fields to override.
        part: `run`, `data` or `admin`.
    """
    catalog = default_catalog()
    loaded, plan = load_plan(path, overrides, catalog, keep=False)
    return render_plan(plan, catalog, Part(part), Attempt(code_digest=own_digest()), loaded.where)


@dataclass(frozen=True, slots=True)
class RenderedRun:
    """Several parts of a run's manifests."""

    plan: Plan
    parts: dict[Part, Rendering]
    findings: tuple[Finding, ...]
    """The findings of the spec and of all parts, without duplicates."""


def render_parts(
    path: PathOrText, overrides: Overrides, parts: Sequence[Part], tell: Tell | None = None
) -> RenderedRun:
    """Render several parts of one plan, which is stored next to the spec.

    `tell` receives the reason why a stored plan was replaced.
    """
    catalog = default_catalog()
    loaded, plan = load_plan(path, overrides, catalog, tell=tell)
    attempt = Attempt(code_digest=own_digest())
    made = {each: render_plan(plan, catalog, each, attempt, loaded.where) for each in parts}
    of_spec = placeholders(loaded, Severity.WARNING)
    of_parts = (finding for rendering in made.values() for finding in rendering.findings)
    return RenderedRun(plan, made, tuple(dict.fromkeys((*of_spec, *of_parts))))


@dataclass(frozen=True, slots=True)
class RenderDiff:
    """What applying a run's manifests would change in its cluster."""

    comparisons: tuple[Comparison, ...]
    """One per object."""
    findings: tuple[Finding, ...]
    """The findings of the manifests."""


def render_diff(
    path: PathOrText,
    overrides: Overrides = (),
    part: Part | str = "run",
    *,
    kubeconfig: str = "",
    context: str = "",
    tell: Tell | None = None,
) -> RenderDiff:
    """Compare the manifests of a run with its cluster, field by field. Changes nothing there.

    Args:
        path: The spec.
        overrides: Fields to override.
        part: `run`, `data` or `admin`.
        kubeconfig: The kubeconfig. Default: KUBECONFIG, else ~/.kube/config.
        context: The kubeconfig context. Default: the current one.
        tell: Receives messages.
    """
    catalog = default_catalog()
    loaded, plan = load_plan(path, overrides, catalog, tell=tell)
    site = connect_to_look(plan.spec.cluster.namespace, kubeconfig, context)
    found, made = compared(site, plan, catalog, Part(part), loaded.where)
    return RenderDiff(tuple(found), made.findings)
