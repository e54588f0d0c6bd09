# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial render --diff`: what applying the manifests would change in the cluster."""

from collections.abc import Sequence
from pathlib import Path

import typer

from seatrial.catalog.catalog import default_catalog
from seatrial.cli.cluster_options import connect_to_look
from seatrial.cli.output import counted, say, say_error, say_findings, say_json, say_text
from seatrial.client import load_plan
from seatrial.errors import ExitCode
from seatrial.findings import Finding
from seatrial.rendering.render import Part
from seatrial.runs.clusters import compared
from seatrial.runs.comparison import Comparison, Verdict
from seatrial.runs.differences import Difference

_DIGESTS = (
    *("seatrial.dev/spec-digest", "seatrial.dev/plan-digest", "seatrial.dev/code-digest"),
    *("seatrial.dev/spec", "seatrial.dev/plan"),
)


def say_comparison_of(
    file: Path,
    overrides: Sequence[str],
    part: Part,
    kubeconfig: str,
    context: str,
    *,
    as_json: bool,
) -> None:
    """Ask the cluster, and print what it says."""
    catalog = default_catalog()
    loaded, plan = load_plan(file, overrides, catalog, tell=say_error)
    namespace = plan.spec.cluster.namespace
    site = connect_to_look(namespace, kubeconfig, context)
    found, made = compared(site, plan, catalog, part, loaded.where)
    say_comparison(found, made.findings, as_json=as_json)
    if not as_json:
        say(f"next  seatrial launch {file}")


def say_comparison(
    found: list[Comparison], findings: tuple[Finding, ...], *, as_json: bool
) -> None:
    """Print what would change; exit code 1 when the cluster refuses something."""
    refused = [each.finding for each in found if each.finding is not None]
    if as_json:
        say_json(
            {
                "objects": [each.to_dict() for each in found],
                "findings": [finding.to_dict() for finding in findings],
            }
        )
    else:
        say_findings(findings)
        for each in found:
            say(f"{each.verdict:<8} {each.name}")
            for change in _telling(each):
                say_text(str(change), " " * 9, " " * 13)
        say_findings(refused)
        numbers = {verdict: sum(e.verdict is verdict for e in found) for verdict in Verdict}
        words = ", ".join(f"{number} {verdict}" for verdict, number in numbers.items() if number)
        say(f"{counted(len(found), 'object')}: {words}")
    if refused:
        raise typer.Exit(ExitCode.FINDINGS)


def _telling(comparison: Comparison) -> list[Difference]:
    """The changes that say something: digests only follow from others, unless they are alone."""
    if comparison.verdict is not Verdict.CHANGED:
        return []
    others = [each for each in comparison.changes if not each.path.endswith(_DIGESTS)]
    return others or list(comparison.changes)
