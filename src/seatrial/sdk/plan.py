# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Load a spec and resolve its plan."""

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
from seatrial.sdk.output_files import write_new
from seatrial.spec.loader import LoadedSpec, byte_order_mark, load, read_tree
from seatrial.spec.run import RunSpec
from seatrial.spec.upgrade import to_current, upgraded

if TYPE_CHECKING:
    from seatrial.runs.kept_plan import Tell

PathOrText = str | PathLike[str]
Overrides = Sequence[str] | Mapping[str, object]
"""Fields to override: `["cluster.nodes=4"]`, or `{"cluster.nodes": 4}`."""


@dataclass(frozen=True, slots=True)
class Validation:
    """A valid spec and its plan."""

    spec: RunSpec
    """The spec with overrides."""
    plan: Plan
    """The resolved plan. The planner fills in the `auto` fields."""
    findings: tuple[Finding, ...]
    """Warnings and notes. Errors are raised instead."""


def load_spec(path: PathOrText, overrides: Overrides = ()) -> RunSpec:
    """Load a spec with overrides. Raises FindingsError if it is invalid."""
    return load(Path(path), override_texts(overrides)).spec


def plan(path: PathOrText, overrides: Overrides = (), *, catalog: Catalog | None = None) -> Plan:
    """Plan a spec. Raises FindingsError with every reason if no plan is possible."""
    return load_plan(path, overrides, catalog or default_catalog(), keep=False)[1]


def load_plan(
    path: PathOrText,
    overrides: Overrides,
    catalog: Catalog,
    *,
    keep: bool = True,
    tell: "Tell | None" = None,
) -> tuple[LoadedSpec, Plan]:
    """Load a spec and its plan.

    If the spec has `auto` fields, this reuses the plan stored next to the spec while it is valid.
    Otherwise the planner makes a new plan, which is stored unless there are overrides.

    Args:
        path: The spec.
        overrides: Fields to override.
        catalog: The catalog to use.
        keep: True to store a new plan next to the spec.
        tell: Receives the reason why a stored plan was replaced.
    """
    loaded = load_checked(path, overrides)
    resolved = _resolved(loaded, catalog, Path(path), tell, keep=keep and not overrides)
    refuse_unsupported(loaded, resolved)
    return loaded, resolved


def _resolved(
    loaded: LoadedSpec, catalog: Catalog, path: Path, tell: "Tell | None", *, keep: bool
) -> Plan:
    """Return the plan of a spec. The planner fills in the `auto` fields."""
    basis = resolve_basis(loaded, catalog)
    if not basis.open_fields:
        return plan_run(basis).plan
    # Imported here because a spec without `auto` needs no stored plan.
    from seatrial.runs.kept_plan import plan_beside  # noqa: PLC0415

    return plan_beside(basis, path, tell, keep=keep)


def load_checked(path: PathOrText, overrides: Overrides = ()) -> LoadedSpec:
    """Load a spec. Raises FindingsError if the engine rejects its options."""
    loaded = load(Path(path), override_texts(overrides))
    findings = option_findings(loaded)
    if has_errors(findings):
        raise FindingsError(findings)
    return loaded


def refuse_unsupported(loaded: LoadedSpec, resolved: Plan) -> None:
    """Raise FindingsError if the engine does not support the plan."""
    findings = plan_findings(loaded, resolved)
    if has_errors(findings):
        raise FindingsError(findings)


def validate(
    path: PathOrText, overrides: Overrides = (), *, catalog: Catalog | None = None
) -> Validation:
    """Validate a spec without a cluster. Raises FindingsError on errors.

    The planner, or the plan stored next to the spec, fills in the `auto` fields.
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
    """Return overrides as on the command line. JSON is valid YAML."""
    if isinstance(overrides, Mapping):
        return tuple(
            f"{key}={json.dumps(value, ensure_ascii=False, default=str)}"
            for key, value in overrides.items()
        )
    if isinstance(overrides, str) or not all(isinstance(text, str) for text in overrides):
        raise UsageError(
            f"overrides must be a list of strings or a mapping, not {overrides!r}. "
            'Use ["cluster.nodes=4"] or {"cluster.nodes": 4}.'
        )
    return tuple(overrides)


@dataclass(frozen=True, slots=True)
class UpgradedSpec:
    """A spec in the current format."""

    text: str
    """The text, with its comments."""
    changes: tuple[str, ...]
    """One sentence per change. Empty if the spec already had the current format."""


def upgrade_spec(path: PathOrText, *, write: bool = False) -> UpgradedSpec:
    """Upgrade a spec to the current format, and keep its comments.

    Args:
        path: The spec.
        write: True to write the file. Otherwise nothing changes.
    """
    file = Path(path)
    before, root = read_tree(file)
    version = root.child("apiVersion")
    written = str(version.value) if version is not None else ""
    _, findings = to_current(root)
    if findings:
        raise FindingsError(findings)
    text, changes = upgraded(before, written)
    if write and changes:
        write_new(file, byte_order_mark(file) + text, force=True)
    return UpgradedSpec(text, changes)
