# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial schema`: the JSON Schema of a spec."""

import json
from pathlib import Path
from typing import Annotated

import typer

from seatrial.cli.options import Force, examples
from seatrial.reports.terminal import say, say_json, say_next, say_text
from seatrial.sdk.output_files import refuse_existing, write_new
from seatrial.spec.schema import json_schema

app = typer.Typer(rich_markup_mode=None, add_completion=False)

EDITOR_LINE = "# yaml-language-server: $schema="
"""The start of a spec's first line, which points editors to its schema."""


@app.command(epilog=examples("seatrial schema", "seatrial schema -o run.schema.json"))
def command(
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file.")
    ] = None,
    force: Force = False,
) -> None:
    """Print the JSON Schema of a spec. Editors use it for completion and checks."""
    if output is None:
        say_json(json_schema())
        say_next("seatrial schema -o run.schema.json   writes it to a file for your editor")
        return
    refuse_existing(output, force=force)
    write_new(output, json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n", force=force)
    say_text(f"Wrote {output}. To use it in your editor, make this the first line of the spec:")
    say(f"  {EDITOR_LINE}{output}")
    say("next  seatrial validate RUN.YAML")
