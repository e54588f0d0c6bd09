# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The SDK: what the command line does, as functions."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from seatrial.catalog.catalog import Catalog, default_catalog
from seatrial.engines.check import option_findings, plan_findings
from seatrial.errors import FindingsError, UsageError
from seatrial.findings import Finding, Severity, has_errors
from seatrial.planning.plan import Plan
from seatrial.planning.resolve import resolve, waits_for_planner
from seatrial.spec.loader import LoadedSpec, load
from seatrial.spec.run import RunSpec

PathOrText = str | PathLike[str]
Overrides = Sequence[str] | Mapping[str, object]
"""Fields to set differently: `["cluster.nodes=4"]`, or `{"cluster.nodes": 4}`."""


@dataclass(frozen=True, slots=True)
class Validation:
    """A spec that was found valid."""

    spec: RunSpec
    """What the user wants."""
    plan: Plan | None
    """What it resolves to; nothing while a field is `auto`."""
    findings: tuple[Finding, ...]
    """Warnings and notes; errors are raised instead."""


def load_spec(path: PathOrText, overrides: Overrides = ()) -> RunSpec:
    """The spec in a file, with overrides; raises FindingsError when it is wrong."""
    return load(Path(path), _texts(overrides)).spec


def plan(path: PathOrText, overrides: Overrides = (), *, catalog: Catalog | None = None) -> Plan:
    """The plan of a spec; raises FindingsError with every reason when there can be none."""
    return load_plan(path, overrides, catalog or default_catalog())[1]


def load_plan(path: PathOrText, overrides: Overrides, catalog: Catalog) -> tuple[LoadedSpec, Plan]:
    """The spec with its places and its plan, for commands that go on from there."""
    loaded = load(Path(path), _texts(overrides))
    findings = option_findings(loaded)
    if has_errors(findings):
        raise FindingsError(findings)
    resolved = resolve(loaded, catalog)
    findings += plan_findings(loaded, resolved)
    if has_errors(findings):
        raise FindingsError(findings)
    return loaded, resolved


def validate(
    path: PathOrText, overrides: Overrides = (), *, catalog: Catalog | None = None
) -> Validation:
    """Everything that can be said of a spec without a cluster; raises FindingsError on errors.

    A field that is `auto` is no error: it is noted, and there is no plan.
    """
    loaded = load(Path(path), _texts(overrides))
    findings = option_findings(loaded)
    resolved = None
    try:
        resolved = resolve(loaded, catalog or default_catalog())
        findings += [*resolved.findings, *plan_findings(loaded, resolved)]
    except FindingsError as error:
        found = error.findings
        if waits_for_planner(error):
            found = tuple(replace(finding, severity=Severity.NOTE) for finding in found)
        findings += found
    if has_errors(findings):
        raise FindingsError(findings)
    return Validation(loaded.spec, resolved, tuple(findings))


def _texts(overrides: Overrides) -> tuple[str, ...]:
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
