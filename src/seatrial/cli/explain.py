# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial explain`: the background of a finding."""

import re
from typing import Annotated

import typer

from seatrial.checks.explanations import explanations
from seatrial.cli.options import Json, examples
from seatrial.codes.registry import known_codes
from seatrial.errors import UsageError
from seatrial.naming import nearest
from seatrial.reports.terminal import say, say_json, say_text

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_SHORT = re.compile(r"(?:ST-)?([A-Z]+)-?(\d{1,3})", re.IGNORECASE)
"""A code as users type it from memory."""

Code = Annotated[
    str, typer.Argument(metavar="CODE", help="The code of a finding, such as ST-BATCH-002.")
]


@app.command(epilog=examples("seatrial explain ST-BATCH-002", "seatrial explain batch-2 --json"))
def command(code: Code, as_json: Json = False) -> None:
    """Explain a finding: its meaning, its consequences, the fix, and the sources."""
    wanted, known = _whole(code), known_codes()
    if wanted not in known:
        match = nearest(wanted, known)
        hint = f"Did you mean {match}?" if match else "All codes: docs/reference/findings.md."
        raise UsageError(f"unknown code {code}. {hint}")
    found, explanation = known[wanted], explanations().get(wanted)
    if as_json:
        say_json(
            {
                "code": found.code,
                "meaning": found.meaning,
                "part": found.part,
                "why": explanation.why if explanation else "",
                "do": explanation.do if explanation else "",
                "sources": list(explanation.sources) if explanation else [],
            }
        )
        return
    say_text(found.meaning, f"{found.code}  ")
    if explanation is not None:
        say()
        say_text(explanation.why)
        if explanation.do:
            say()
            say_text(explanation.do, "fix     ")
        say()
        for source in explanation.sources:
            say_text(source, "source  ")
    say("\nnext  seatrial check RUN.YAML")


def _whole(code: str) -> str:
    """Complete a short code: `render-11` becomes ST-RENDER-011."""
    match = _SHORT.fullmatch(code.strip())
    return f"ST-{match[1].upper()}-{int(match[2]):03}" if match else code.strip().upper()
