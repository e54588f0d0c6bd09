# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""From the file of a spec to its plan."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from seatrial.catalog.catalog import Catalog, default_catalog
from seatrial.engines.registry import option_findings, plan_findings
from seatrial.errors import FindingsError, UsageError
from seatrial.findings import Finding, has_errors
from seatrial.planning.plan import Plan
from seatrial.planning.planner import plan_run
from seatrial.planning.resolve import resolve_basis
from seatrial.spec.loader import LoadedSpec, load
from seatrial.spec.run import RunSpec

if TYPE_CHECKING:
    from seatrial.runs.kept_plan import Tell

PathOrText = str | PathLike[str]
Overrides = Sequence[str] | Mapping[str, object]
"""Fields to set differently: `["cluster.nodes=4"]`, or `{"cluster.nodes": 4}`."""


@dataclass(frozen=True, slots=True)
class Validation:
    """A spec that was found valid."""

    spec: RunSpec
    """What the user wants."""
    plan: Plan
    """What it resolves to; what is `auto` is filled by the planner."""
    findings: tuple[Finding, ...]
    """Warnings and notes; errors are raised instead."""


def load_spec(path: PathOrText, overrides: Overrides = ()) -> RunSpec:
    """The spec in a file, with overrides; raises FindingsError when it is wrong."""
    return load(Path(path), override_texts(overrides)).spec


def plan(path: PathOrText, overrides: Overrides = (), *, catalog: Catalog | None = None) -> Plan:
    """The plan of a spec; raises FindingsError with every reason when there can be none."""
    return load_plan(path, overrides, catalog or default_catalog(), keep=False)[1]


def load_plan(
    path: PathOrText,
    overrides: Overrides,
    catalog: Catalog,
    *,
    keep: bool = True,
    tell: "Tell | None" = None,
) -> tuple[LoadedSpec, Plan]:
    """The spec with its places and its plan, for commands that go on from there.

    Where fields are `auto`, the plan that is kept beside the spec is used as long as it follows
    from the spec; else the planner makes a new one, which is kept unless there are overrides.

    Args:
        path: The spec.
        overrides: Fields to set differently.
        catalog: The facts.
        keep: Whether a new plan is written beside the spec.
        tell: Told why a kept plan was made anew.
    """
    loaded = load_checked(path, overrides)
    resolved = _resolved(loaded, catalog, Path(path), tell, keep=keep and not overrides)
    refuse_unsupported(loaded, resolved)
    return loaded, resolved


def _resolved(
    loaded: LoadedSpec, catalog: Catalog, path: Path, tell: "Tell | None", *, keep: bool
) -> Plan:
    """The plan of a spec; the planner fills what is `auto`."""
    basis = resolve_basis(loaded, catalog)
    if not basis.open_fields:
        return plan_run(basis).plan
    # Loaded here because a spec without `auto` needs no kept plan.
    from seatrial.runs.kept_plan import plan_beside  # noqa: PLC0415

    return plan_beside(basis, path, tell, keep=keep)


def load_checked(path: PathOrText, overrides: Overrides = ()) -> LoadedSpec:
    """The spec with its places, when its engine takes the options that it passes through."""
    loaded = load(Path(path), override_texts(overrides))
    findings = option_findings(loaded)
    if has_errors(findings):
        raise FindingsError(findings)
    return loaded


def refuse_unsupported(loaded: LoadedSpec, resolved: Plan) -> None:
    """Raise when the engine cannot do what the plan says."""
    findings = plan_findings(loaded, resolved)
    if has_errors(findings):
        raise FindingsError(findings)


def validate(
    path: PathOrText, overrides: Overrides = (), *, catalog: Catalog | None = None
) -> Validation:
    """Everything that can be said of a spec without a cluster; raises FindingsError on errors.

    Fields that are `auto` are filled by the planner, or from the plan that is kept beside the spec.
    """
    loaded = load(Path(path), override_texts(overrides))
    findings = option_findings(loaded)
    try:
        resolved = _resolved(loaded, catalog or default_catalog(), Path(path), None, keep=False)
    except FindingsError as error:
        raise FindingsError([*findings, *error.findings]) from error
    findings += [*resolved.findings, *plan_findings(loaded, resolved)]
    if has_errors(findings):
        raise FindingsError(findings)
    return Validation(loaded.spec, resolved, tuple(findings))


def override_texts(overrides: Overrides) -> tuple[str, ...]:
    """The overrides as the command line has them; JSON is YAML too."""
    if isinstance(overrides, Mapping):
        return tuple(
            f"{key}={json.dumps(value, ensure_ascii=False, default=str)}"
            for key, value in overrides.items()
        )
    if isinstance(overrides, str) or not all(isinstance(text, str) for text in overrides):
        raise UsageError(
            f"overrides are a list of texts or a mapping, not {overrides!r}. "
            'Write ["cluster.nodes=4"] or {"cluster.nodes": 4}.'
        )
    return tuple(overrides)
