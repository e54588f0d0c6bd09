# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial render`: print a run's Kubernetes manifests, or write them to a directory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from seatrial.cli.options import Context, Json, Kubeconfig, Overrides, SpecFile, examples
from seatrial.errors import ExitCode, UsageError
from seatrial.findings import Finding
from seatrial.planning.plan import Plan
from seatrial.rendering.helm_chart import chart_files
from seatrial.rendering.render import Part, Rendering
from seatrial.rendering.yaml_text import rendering_files, yaml_documents
from seatrial.reports.terminal import (
    counted,
    say,
    say_error,
    say_findings,
    say_json,
    say_next,
    say_text,
)
from seatrial.runs.launch.diff import Comparison, DiffVerdict
from seatrial.runs.launch.differences import FieldDifference
from seatrial.sdk.output_files import write_directory
from seatrial.sdk.render import render_diff, render_parts

_DIGESTS = (
    *("seatrial.dev/spec-digest", "seatrial.dev/plan-digest", "seatrial.dev/code-digest"),
    *("seatrial.dev/spec", "seatrial.dev/plan"),
)


def say_comparison(
    found: Sequence[Comparison], findings: tuple[Finding, ...], *, as_json: bool
) -> None:
    """Print what would change. Exit code 1 if the cluster would refuse an object."""
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
            for change in _shown_changes(each):
                say_text(str(change), " " * 9, " " * 13)
        say_findings(refused)
        numbers = {verdict: sum(e.verdict is verdict for e in found) for verdict in DiffVerdict}
        words = ", ".join(f"{number} {verdict}" for verdict, number in numbers.items() if number)
        say(f"{counted(len(found), 'object')}: {words}")
    if refused:
        raise typer.Exit(ExitCode.FINDINGS)


def _shown_changes(comparison: Comparison) -> list[FieldDifference]:
    """Return the changes without digests, unless only digests changed."""
    if comparison.verdict is not DiffVerdict.CHANGED:
        return []
    others = [each for each in comparison.changes if not each.path.endswith(_DIGESTS)]
    return others or list(comparison.changes)


app = typer.Typer(rich_markup_mode=None, add_completion=False)

_KEPT = (Part.RUN, Part.ADMIN)
"""The parts that a directory always gets. The data part (a RayJob, which needs KubeRay) is only
written on request: `seatrial data prepare --on kubernetes` does not need it."""


@app.command(epilog=examples("seatrial render run.yaml", "seatrial render run.yaml -o manifests/"))
def command(
    file: SpecFile,
    overrides: Overrides = None,
    part: Annotated[
        Part,
        typer.Option(help="The part to print. A directory always gets run and admin."),
    ] = Part.RUN,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Write files to a directory instead of printing."
        ),
    ] = None,
    helm: Annotated[
        bool, typer.Option("--helm", help="Write a Helm chart for the run (needs --output).")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files from an earlier render.")
    ] = False,
    diff: Annotated[
        bool,
        typer.Option("--diff", help="Show what would change in the cluster, field by field."),
    ] = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Write a run's Kubernetes manifests, exactly as `seatrial launch` submits them.

    Works offline, except --diff, which reads the cluster and needs the cluster extra. Pipe the
    manifests to kubectl, or use --output to keep them in version control.
    """
    _refuse_together(part, output, helm=helm, diff=diff)
    if diff:
        found = render_diff(
            file, overrides or (), part, kubeconfig=kubeconfig, context=context, tell=say_error
        )
        say_comparison(found.comparisons, found.findings, as_json=as_json)
        if not as_json:
            say(f"next  seatrial launch {file}")
        return
    wanted = [part] if output is None or helm else list(dict.fromkeys((*_KEPT, part)))
    rendered = render_parts(file, overrides or (), wanted, tell=say_error)
    plan, made = rendered.plan, rendered.parts
    first = made[wanted[0]]
    if as_json:
        _say_as_json(made, rendered.findings)
        return
    say_findings(rendered.findings)
    if output is None:
        say(yaml_documents(first.manifests).rstrip("\n"))
        say_next(f"seatrial launch {file}")
        return
    files = chart_files(first, plan) if helm else _all_files(made)
    write_directory(output, files, force=force)
    _conclude(output, made, plan, helm=helm)


def _refuse_together(part: Part, output: Path | None, *, helm: bool, diff: bool) -> None:
    """Refuse mutually exclusive options."""
    if helm and output is None:
        raise UsageError("--helm writes a chart with several files. Add --output DIR.")
    if helm and part is Part.ADMIN:
        raise UsageError(
            "--helm writes a chart for the run, which does not include --part admin. Omit one of "
            "the two options. The chart for administrators is charts/seatrial."
        )
    if diff and output is not None:
        raise UsageError("--diff compares with a cluster and writes no files. Omit --output.")


def _all_files(made: dict[Part, Rendering]) -> dict[str, str]:
    """Return the files of every part, in one directory each."""
    return {
        f"{part}/{name}": text
        for part, rendering in made.items()
        for name, text in rendering_files(rendering).items()
    }


def _say_as_json(made: dict[Part, Rendering], findings: Sequence[Finding]) -> None:
    say_json(
        {
            "manifests": {str(part): list(rendering.manifests) for part, rendering in made.items()},
            "findings": [finding.to_dict() for finding in findings],
        }
    )


def _conclude(output: Path, made: dict[Part, Rendering], plan: Plan, *, helm: bool) -> None:
    """Print what was written, and the next step."""
    namespace = plan.spec.cluster.namespace
    if helm:
        say_text(f"Wrote the chart for {plan.spec.name} to {output}.", rest="  ")
        say(f"next  helm install {plan.spec.name} {output} --namespace {namespace}")
        return
    numbers = ", ".join(
        f"{part} {counted(len(rendering.manifests), 'object')}" for part, rendering in made.items()
    )
    say_text(f"Wrote {output}: {numbers}.", rest="  ")
    say(f"next  kubectl apply --server-side -k {output}/{Part.ADMIN}   once, by an administrator")
    say(f"      kubectl apply --server-side -k {output}/{Part.RUN}")
