# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The SDK: what the command line does, as functions."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path

from seatrial.catalog.catalog import Catalog, default_catalog
from seatrial.engines.engine import EngineCode
from seatrial.engines.registry import ENGINES
from seatrial.errors import FindingsError
from seatrial.findings import Finding, Severity, has_errors
from seatrial.planning.plan import Plan
from seatrial.planning.resolve import resolve, waits_for_planner
from seatrial.spec.loader import LoadedSpec, load
from seatrial.spec.run import RunSpec

PathOrText = str | PathLike[str]


@dataclass(frozen=True, slots=True)
class Validation:
    """A spec that was found valid."""

    spec: RunSpec
    """What the user wants."""
    plan: Plan | None
    """What it resolves to; nothing while a field is `auto`."""
    findings: tuple[Finding, ...]
    """Warnings and notes; errors are raised instead."""


def load_spec(path: PathOrText, overrides: Sequence[str] = ()) -> RunSpec:
    """The spec in a file, with `key=value` overrides; raises FindingsError when it is wrong."""
    return load(Path(path), tuple(overrides)).spec


def plan(
    path: PathOrText, overrides: Sequence[str] = (), *, catalog: Catalog | None = None
) -> Plan:
    """The plan of a spec; raises FindingsError with every reason when there can be none."""
    loaded = load(Path(path), tuple(overrides))
    findings = _engine_findings(loaded)
    if has_errors(findings):
        raise FindingsError(findings)
    return resolve(loaded, catalog or default_catalog())


def validate(
    path: PathOrText, overrides: Sequence[str] = (), *, catalog: Catalog | None = None
) -> Validation:
    """Everything that can be said of a spec without a cluster; raises FindingsError on errors.

    A field that is `auto` is no error: it is noted, and there is no plan.
    """
    loaded = load(Path(path), tuple(overrides))
    findings = _engine_findings(loaded)
    resolved = None
    try:
        resolved = resolve(loaded, catalog or default_catalog())
    except FindingsError as error:
        found = error.findings
        if waits_for_planner(error):
            found = tuple(replace(finding, severity=Severity.NOTE) for finding in found)
        findings += found
    if has_errors(findings):
        raise FindingsError(findings)
    return Validation(loaded.spec, resolved, tuple(findings))


def _engine_findings(loaded: LoadedSpec) -> list[Finding]:
    """What the engine says of the options that are passed through to it."""
    engine = ENGINES[loaded.spec.engine.name]
    findings = []
    for problem in engine.option_problems(loaded.spec.engine.options):
        unchecked = problem.code is EngineCode.UNCHECKED_OPTION
        severity = Severity.WARNING if unchecked else Severity.ERROR
        where = loaded.where(f"engine.options.{problem.option}")
        value = str(loaded.spec.engine.options[problem.option])
        findings.append(Finding(problem.code, severity, where, problem.rule, value, problem.fix))
    return findings
