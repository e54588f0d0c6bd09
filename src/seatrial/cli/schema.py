# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial schema`: the JSON Schema of a spec."""

import json
from pathlib import Path
from typing import Annotated

import typer

from seatrial.cli.options import Force
from seatrial.reports.terminal import say, say_json, say_next, say_text
from seatrial.sdk.output_files import refuse_existing, write_new
from seatrial.spec.schema import json_schema

app = typer.Typer(rich_markup_mode=None, add_completion=False)

EDITOR_LINE = "# yaml-language-server: $schema="
"""The first line of a spec by which editors find its schema."""


@app.command()
def command(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to a file instead of printing.")
    ] = None,
    force: Force = False,
) -> None:
    """Print the JSON Schema of a spec; with it, an editor completes and checks as you type."""
    if output is None:
        say_json(json_schema())
        say_next("seatrial schema -o run.schema.json   writes it where an editor finds it")
        return
    refuse_existing(output, force=force)
    write_new(output, json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n", force=force)
    say_text(f"Wrote {output}. Let your editor use it by this first line in the spec:")
    say(f"  {EDITOR_LINE}{output}")
    say("next  seatrial validate RUN.YAML")
