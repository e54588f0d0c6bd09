# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial site`: what an administrator installs in a cluster."""

from pathlib import Path
from typing import Annotated

import typer

from seatrial.cli.options import Json, Overrides, examples
from seatrial.rendering.site_files import FILE_NAMES, SiteFormat
from seatrial.reports.terminal import say, say_json, say_text
from seatrial.sdk.output_files import write_directory
from seatrial.sdk.site import site

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(
    epilog=examples(
        "seatrial site eks",
        "seatrial site aks cluster.operator=trainjob --format helmfile",
        "seatrial site run.yaml --format argocd -o site/",
    )
)
def command(
    target: Annotated[
        str, typer.Argument(metavar="PROFILE|RUN.YAML", help="A cluster profile, or a run's spec.")
    ],
    overrides: Overrides = None,
    form: Annotated[
        SiteFormat, typer.Option("--format", help="How to write the components.")
    ] = SiteFormat.COMMANDS,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Write a file to a directory instead of printing."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file of an earlier call.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Print what a cluster needs before the first run: charts, versions and values.

    Versions that are known not to work together are avoided, or refused with the reason.
    The command changes nothing in a cluster: an administrator runs its output. Compare a cluster
    with this list by `seatrial check RUN.YAML --cluster`.
    """
    found = site(target, overrides or ())
    if as_json:
        say_json([release.to_dict() for release in found.releases])
        return
    text = found.text(form)
    if output is None:
        say(text.rstrip("\n"))
        return
    name = FILE_NAMES[form]
    write_directory(output, {name: text}, force=force)
    say_text(f"Wrote {output / name}: {len(found.releases)} components.", rest="  ")
    starts = {
        SiteFormat.COMMANDS: f"bash {output / name}",
        SiteFormat.HELMFILE: f"helmfile --file {output / name} apply",
        SiteFormat.ARGOCD: f"kubectl apply --server-side -f {output / name}",
    }
    say(f"next  {starts[form]}")
