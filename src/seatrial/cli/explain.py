# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial explain`: the background of a finding."""

from dataclasses import asdict
from typing import Annotated

import typer

from seatrial.checks.explanations import explain
from seatrial.cli.options import Json, examples
from seatrial.reports.terminal import say, say_json, say_text

app = typer.Typer(rich_markup_mode=None, add_completion=False)

Code = Annotated[
    str, typer.Argument(metavar="CODE", help="The code of a finding, such as ST-BATCH-002.")
]


@app.command(epilog=examples("seatrial explain ST-BATCH-002", "seatrial explain batch-2 --json"))
def command(code: Code, as_json: Json = False) -> None:
    """Explain a finding: its meaning, its consequences, the fix, and the sources."""
    found = explain(code)
    if as_json:
        say_json(asdict(found))
        return
    say_text(found.meaning, f"{found.code}  ")
    if found.why:
        say()
        say_text(found.why)
        if found.do:
            say()
            say_text(found.do, "fix     ")
        say()
        for source in found.sources:
            say_text(source, "source  ")
    say("\nnext  seatrial check RUN.YAML")
