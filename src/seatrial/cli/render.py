# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial render`: the Kubernetes manifests of a run, on the screen or in a directory."""

from pathlib import Path
from typing import Annotated

import typer

from seatrial.catalog.catalog import default_catalog
from seatrial.cli.cluster_options import Context, Kubeconfig
from seatrial.cli.output import (
    counted,
    say,
    say_error,
    say_findings,
    say_json,
    say_next,
    say_text,
)
from seatrial.cli.parameters import Json, Overrides, SpecFile
from seatrial.cli.render_diff import say_comparison_of
from seatrial.cli.render_files import write_directory
from seatrial.client import load_plan
from seatrial.errors import UsageError
from seatrial.findings import Finding, Severity
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt
from seatrial.rendering.files import rendering_files
from seatrial.rendering.helm_chart import chart_files
from seatrial.rendering.render import Part, Rendering, render
from seatrial.rendering.yaml_text import yaml_documents
from seatrial.runs.own_files import own_digest
from seatrial.spec.placeholders import placeholders

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_KEPT = (Part.RUN, Part.ADMIN)
"""What a directory gets unasked. Data are prepared by `seatrial data prepare --on kubernetes`; who
wants the RayJob, on a cluster with KubeRay, asks for it."""


@app.command()
def command(
    file: SpecFile,
    overrides: Overrides = None,
    part: Annotated[
        Part,
        typer.Option(help="What to print; a directory gets run and admin, and data by its name."),
    ] = Part.RUN,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Write files to a directory instead of printing."
        ),
    ] = None,
    helm: Annotated[
        bool, typer.Option("--helm", help="Write a Helm chart of the run; needs --output.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace what an earlier render wrote there.")
    ] = False,
    diff: Annotated[
        bool,
        typer.Option("--diff", help="Ask the cluster what would change, field by field."),
    ] = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    as_json: Json = False,
) -> None:
    """Write the Kubernetes manifests of a run: what is shown is what a launch submits.

    No cluster is asked, but for --diff, which changes nothing there and needs the cluster extra.
    Pipe the manifests to kubectl, or keep them in version control with --output.
    """
    _refuse_together(part, output, helm=helm, diff=diff)
    if diff:
        words = overrides or ()
        say_comparison_of(file, words, part, kubeconfig, context, as_json=as_json)
        return
    catalog = default_catalog()
    loaded, plan = load_plan(file, overrides or (), catalog, tell=say_error)
    attempt = Attempt(code_digest=own_digest())
    wanted = [part] if output is None or helm else list(dict.fromkeys((*_KEPT, part)))
    made = {each: render(plan, catalog, each, attempt, loaded.where) for each in wanted}
    first = made[wanted[0]]
    findings = _findings(made, placeholders(loaded, Severity.WARNING))
    if as_json:
        _say_as_json(made, findings)
        return
    say_findings(findings)
    if output is None:
        say(yaml_documents(first.manifests).rstrip("\n"))
        say_next(f"seatrial launch {file}")
        return
    files = chart_files(first, plan) if helm else _all_files(made)
    write_directory(output, files, force=force)
    _conclude(output, made, plan, helm=helm)


def _refuse_together(part: Part, output: Path | None, *, helm: bool, diff: bool) -> None:
    """Refuse options that do not go together."""
    if helm and output is None:
        raise UsageError("--helm writes a chart of several files. Add --output DIR.")
    if helm and part is Part.ADMIN:
        raise UsageError(
            "--helm writes a chart of what runs, and --part admin has nothing that does. Leave out "
            "one of them; the chart for administrators is charts/seatrial."
        )
    if diff and output is not None:
        raise UsageError("--diff compares with a cluster and writes no files. Leave out --output.")


def _all_files(made: dict[Part, Rendering]) -> dict[str, str]:
    """A directory for each part."""
    return {
        f"{part}/{name}": text
        for part, rendering in made.items()
        for name, text in rendering_files(rendering).items()
    }


def _findings(made: dict[Part, Rendering], of_spec: tuple[Finding, ...]) -> list[Finding]:
    """What was found of the spec and of all parts; each once."""
    of_parts = (finding for rendering in made.values() for finding in rendering.findings)
    return list(dict.fromkeys((*of_spec, *of_parts)))


def _say_as_json(made: dict[Part, Rendering], findings: list[Finding]) -> None:
    say_json(
        {
            "manifests": {str(part): list(rendering.manifests) for part, rendering in made.items()},
            "findings": [finding.to_dict() for finding in findings],
        }
    )


def _conclude(output: Path, made: dict[Part, Rendering], plan: Plan, *, helm: bool) -> None:
    """What was written, and what comes next."""
    namespace = plan.spec.cluster.namespace
    if helm:
        say_text(f"Wrote the chart of {plan.spec.name} to {output}.", rest="  ")
        say(f"next  helm install {plan.spec.name} {output} --namespace {namespace}")
        return
    numbers = ", ".join(
        f"{part} {counted(len(rendering.manifests), 'object')}" for part, rendering in made.items()
    )
    say_text(f"Wrote {output}: {numbers}.", rest="  ")
    say(f"next  kubectl apply --server-side -k {output}/{Part.ADMIN}   once, by an administrator")
    say(f"      kubectl apply --server-side -k {output}/{Part.RUN}")
