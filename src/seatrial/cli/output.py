# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How commands speak: findings, tables and JSON; colour only on a terminal."""

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import IO, Any

from seatrial.findings import Finding, Severity

_COLOURS = {Severity.ERROR: "31;1", Severity.WARNING: "33;1", Severity.NOTE: "36"}


def has_colour(stream: IO[str]) -> bool:
    """Whether a stream shows colours: a terminal, and nobody objects (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def say(text: str = "") -> None:
    """Print a line of a command's answer."""
    print(text)  # noqa: T201


def say_error(text: str) -> None:
    """Print a line beside the answer, where pipes do not catch it."""
    print(text, file=sys.stderr)  # noqa: T201


def say_json(data: Any) -> None:
    """Print data for a program."""
    say(json.dumps(data, indent=2, ensure_ascii=False, default=str))


def say_findings(findings: Iterable[Finding], stream: IO[str] | None = None) -> None:
    """Print findings for a person: code and place, then the rule, then what to do."""
    stream = stream or sys.stderr
    colour = has_colour(stream)
    width = min(shutil.get_terminal_size((100, 24)).columns, 120)
    for finding in findings:
        word = f"{finding.severity:<7}"
        if colour:
            word = f"\033[{_COLOURS[finding.severity]}m{word}\033[0m"
        lines = [f"{word} {finding.code:<14} {finding.where}".rstrip()]
        for text in (finding.rule, finding.fix):
            lines += textwrap.wrap(
                text,
                width,
                initial_indent=" " * 8,
                subsequent_indent=" " * 8,
                break_long_words=False,
                break_on_hyphens=False,
            )
        print("\n".join(lines), file=stream)


def count_line(findings: Sequence[Finding]) -> str:
    """`2 errors, 1 warning`: how many findings of each severity there are."""
    parts = []
    for severity in Severity:
        number = sum(finding.severity is severity for finding in findings)
        if number:
            parts.append(f"{number} {severity}{'s' if number > 1 else ''}")
    return ", ".join(parts)


def say_table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, title: str = "") -> None:
    """Print a table; off a terminal it is as wide as its content, so that nothing is cut."""
    from rich.console import Console  # noqa: PLC0415  (80 ms that only tables need)
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=title or None, title_justify="left", box=None, pad_edge=False)
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*row)
    terminal = sys.stdout.isatty()
    console = Console(
        width=None if terminal else 400, no_color=not has_colour(sys.stdout), highlight=False
    )
    if terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    say("\n".join(line.rstrip() for line in captured.get().splitlines()))
