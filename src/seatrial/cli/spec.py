# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial spec`: the format of specs."""

from pathlib import Path
from typing import Annotated

import typer

from seatrial.errors import FindingsError
from seatrial.reports.terminal import say, say_text
from seatrial.sdk.output_files import write_new
from seatrial.spec.loader import byte_order_mark, read_tree
from seatrial.spec.run import API_VERSION
from seatrial.spec.upgrade import to_current, upgraded

app = typer.Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)

Files = Annotated[list[Path], typer.Argument(metavar="RUN.YAML...", help="Specs.")]
Write = Annotated[bool, typer.Option("--write", help="Write the new format into the files.")]


@app.callback()
def group() -> None:
    """Look after the format of specs."""


@app.command()
def upgrade(files: Files, write: Write = False) -> None:
    """Bring specs of an older format to the newest one, comments kept.

    Without --write it only says what would change. An older file works as it is, too, as long as
    the changelog does not say otherwise.
    """
    for file in files:
        before, root = read_tree(file)
        version = root.child("apiVersion")
        written = str(version.value) if version is not None else ""
        _, findings = to_current(root)
        if findings:
            raise FindingsError(findings)
        text, changes = upgraded(before, written)
        if not changes:
            say_text(f"{file} is {API_VERSION}, the newest format: nothing to do.", rest="  ")
            say(f"next  seatrial validate {file}")
            continue
        if write:
            write_new(file, byte_order_mark(file) + text, force=True)
        say(f"{file} {'is' if write else 'would be'} {API_VERSION}:")
        for change in changes:
            say(f"  {change}")
        command = f"validate {file}" if write else f"spec upgrade {file} --write"
        say(f"next  seatrial {command}")
