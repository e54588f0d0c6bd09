# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial spec`: upgrade specs to the current format."""

from pathlib import Path
from typing import Annotated

import typer

from seatrial.cli.options import examples
from seatrial.reports.terminal import say, say_text
from seatrial.sdk.plan import upgrade_spec
from seatrial.spec.run import API_VERSION

app = typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)

Files = Annotated[list[Path], typer.Argument(metavar="RUN.YAML...", help="The specs to upgrade.")]
Write = Annotated[bool, typer.Option("--write", help="Write the files.")]


@app.callback()
def group() -> None:
    """Upgrade specs to the current format."""


@app.command(
    epilog=examples("seatrial spec upgrade run.yaml", "seatrial spec upgrade *.yaml --write")
)
def upgrade(files: Files, write: Write = False) -> None:
    """Upgrade specs to the current format and keep their comments.

    Without --write, only shows the changes. Older formats keep working unless the changelog says
    otherwise.
    """
    for file in files:
        changes = upgrade_spec(file, write=write).changes
        if not changes:
            say_text(f"{file} already has the current format, {API_VERSION}.", rest="  ")
            say(f"next  seatrial validate {file}")
            continue
        say(f"{file} {'is now' if write else 'would become'} {API_VERSION}:")
        for change in changes:
            say(f"  {change}")
        command = f"validate {file}" if write else f"spec upgrade {file} --write"
        say(f"next  seatrial {command}")
