# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial render`: the Kubernetes manifests of a run, on the screen or in a directory."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from seatrial.catalog.catalog import default_catalog
from seatrial.cli.options import Context, Json, Kubeconfig, Overrides, SpecFile
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
        numbers = {verdict: sum(e.verdict is verdict for e in found) for verdict in DiffVerdict}
        words = ", ".join(f"{number} {verdict}" for verdict, number in numbers.items() if number)
        say(f"{counted(len(found), 'object')}: {words}")
    if refused:
        raise typer.Exit(ExitCode.FINDINGS)


def _telling(comparison: Comparison) -> list[FieldDifference]:
    """The changes that say something: digests only follow from others, unless they are alone."""
    if comparison.verdict is not DiffVerdict.CHANGED:
        return []
    others = [each for each in comparison.changes if not each.path.endswith(_DIGESTS)]
    return others or list(comparison.changes)


RECORD = ".seatrial-render"
"""The record of the last render: a line for each file, as sha256sum has it. Without an ending, for
`kubectl apply -f DIR` reads every file whose name ends in .yaml or .json."""
_NAMED = 5


def write_directory(directory: Path, files: Mapping[str, str], *, force: bool) -> None:
    """Write files below a directory; what the last render left there goes, nothing else.

    A name does not tell whose a file is, and a file that was edited since is its editor's: only
    one that the record lists and whose content is still that of the record is replaced.
    """
    there = _existing(directory)
    recorded = _recorded(directory)
    kept = [name for name, path in there.items() if _digest(path) != recorded.get(name, "-")]
    if kept:
        more = f" and {len(kept) - _NAMED} more" if len(kept) > _NAMED else ""
        raise UsageError(
            f"{directory} holds what no render has written, or what was changed since: "
            f"{', '.join(kept[:_NAMED])}{more}. Nothing was touched. "
            "Move it away, or choose a directory of its own."
        )
    if there and not force:
        raise UsageError(f"{directory} has files already. Replace them by --force.")
    for path in there.values():
        path.unlink()
    parents = sorted({directory, *((directory / name).parent for name in files)})
    new = [parent for parent in parents if not parent.exists()]
    try:
        for parent in parents:
            _make_directory(parent)
        # Before the files: a render that was interrupted knows what it has written.
        digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
        lines = sorted(f"{digest}  {name}\n" for name, digest in digests.items())
        write_new(directory / RECORD, "".join(lines), force=True)
        for name, text in files.items():
            write_new(directory / name, text, force=False)
    except UsageError:
        for parent in reversed(new):
            # What has a file in it stays, with its record.
            with suppress(OSError):
                parent.rmdir()
        raise


def _make_directory(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be made: {error.strerror}.") from None


def _existing(directory: Path) -> dict[str, Path]:
    """The files below a directory by their names there, without the record; links are files."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file. Give a directory.")
    found = {
        path.relative_to(directory).as_posix(): path
        for path in sorted(directory.rglob("*"))
        if path.is_symlink() or not path.is_dir()
    }
    found.pop(RECORD, None)
    return found


def _recorded(directory: Path) -> dict[str, str]:
    """The digests of what the last render wrote; nothing without a record that can be read."""
    try:
        text = read_state(directory / RECORD).decode()
    except (OSError, ValueError):
        return {}
    lines = (line.partition("  ") for line in text.splitlines())
    return {name: digest for digest, _, name in lines}


def _digest(path: Path) -> str:
    """The digest of a file; nothing for what is no file of ours, such as a link."""
    if os.path.islink(path):
        return ""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


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
