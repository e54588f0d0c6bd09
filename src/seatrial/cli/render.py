# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial render`: print a run's Kubernetes manifests, or write them to a directory."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from seatrial.catalog.catalog import default_catalog
from seatrial.cli.options import Context, Json, Kubeconfig, Overrides, SpecFile, examples
from seatrial.errors import ExitCode, UsageError
from seatrial.findings import Finding, Severity
from seatrial.planning.plan import Plan
from seatrial.rendering.attempt import Attempt, own_digest
from seatrial.rendering.helm_chart import chart_files
from seatrial.rendering.render import Part, Rendering, render
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
from seatrial.runs.launch.connect import compared
from seatrial.runs.launch.diff import Comparison, DiffVerdict
from seatrial.runs.launch.differences import FieldDifference
from seatrial.sdk.output_files import write_new
from seatrial.sdk.plan import load_plan
from seatrial.sdk.runs import connect_to_look
from seatrial.spec.placeholders import placeholders
from seatrial.storage.state_files import read_state

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
    """Compare the manifests with the cluster and print the differences."""
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


RECORD = ".seatrial-render"
"""The record of the last render, in the format of sha256sum. It has no suffix, because
`kubectl apply -f DIR` reads every .yaml and .json file."""
_NAMED = 5


def write_directory(directory: Path, files: Mapping[str, str], *, force: bool) -> None:
    """Write files to a directory, replacing only unchanged files of the last render.

    A file is replaced only if the record lists it and its content still matches the record.
    """
    there = _existing(directory)
    recorded = _recorded(directory)
    kept = [name for name, path in there.items() if _digest(path) != recorded.get(name, "-")]
    if kept:
        more = f" and {len(kept) - _NAMED} more" if len(kept) > _NAMED else ""
        raise UsageError(
            f"{directory} contains files that render did not write or that were edited since: "
            f"{', '.join(kept[:_NAMED])}{more}. No file was changed. "
            "Move these files, or choose a different directory."
        )
    if there and not force:
        raise UsageError(f"{directory} already has files. Use --force to replace them.")
    for path in there.values():
        path.unlink()
    parents = sorted({directory, *((directory / name).parent for name in files)})
    new = [parent for parent in parents if not parent.exists()]
    try:
        for parent in parents:
            _make_directory(parent)
        # The record comes first, so that the next render recognises files of an interrupted one.
        digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
        lines = sorted(f"{digest}  {name}\n" for name, digest in digests.items())
        write_new(directory / RECORD, "".join(lines), force=True)
        for name, text in files.items():
            write_new(directory / name, text, force=False)
    except UsageError:
        for parent in reversed(new):
            # A directory that contains files is kept, with its record.
            with suppress(OSError):
                parent.rmdir()
        raise


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot create {path}: {error.strerror}.") from None


def _existing(directory: Path) -> dict[str, Path]:
    """Return the files below a directory by relative name, without the record. Links count."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file. Pass a directory.")
    found = {
        path.relative_to(directory).as_posix(): path
        for path in sorted(directory.rglob("*"))
        if path.is_symlink() or not path.is_dir()
    }
    found.pop(RECORD, None)
    return found


def _recorded(directory: Path) -> dict[str, str]:
    """Return the digests of the last render's files. Empty without a readable record."""
    try:
        text = read_state(directory / RECORD).decode()
    except (OSError, ValueError):
        return {}
    lines = (line.partition("  ") for line in text.splitlines())
    return {name: digest for digest, _, name in lines}


def _digest(path: Path) -> str:
    """Return a file's digest. Empty for a link or an unreadable file."""
    if os.path.islink(path):
        return ""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


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


def _findings(made: dict[Part, Rendering], of_spec: tuple[Finding, ...]) -> list[Finding]:
    """Return the findings of the spec and of all parts, without duplicates."""
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
