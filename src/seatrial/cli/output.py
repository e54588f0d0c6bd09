# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How commands speak: lines, findings and JSON; colour only on a terminal."""

import codecs
import errno
import json
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import IO, Any

from seatrial.findings import Finding, Severity

_COLOURS = {Severity.ERROR: "31;1", Severity.WARNING: "33;1", Severity.NOTE: "36"}
_PLAIN = {"×": "x", "·": "|", "→": "->", "−": "-", "–": "-", "…": "..."}
"""What stands in for a character that a stream's encoding does not have."""
_LOST = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""How writing to an open stream fails."""
_WIDEST_TEXT = 120
"""Longer lines are hard to read, however wide the terminal is."""


class OutputLostError(Exception):
    """Standard output takes nothing more; the cause is the operating system's error."""


def prepare_streams() -> None:
    """Let no character stop a command: what a stream cannot encode is written plainly."""
    codecs.register_error("seatrial", _plainly)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="seatrial")


def _plainly(error: UnicodeError) -> tuple[str, int]:
    """The nearest plain text for what cannot be encoded."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(c, "?") for c in error.object[error.start : error.end]), error.end


@contextmanager
def guarded_output() -> Iterator[None]:
    """Tell a lost output (full disk, closed pipe) from any other error of the system."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        # What is done with a named file says so; writing to a stream does not.
        if error.filename is None and error.errno in _LOST:
            raise OutputLostError from error
        raise


def has_colour(stream: IO[str]) -> bool:
    """Whether a stream shows colours: a terminal, and nobody objects (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def columns(stream: IO[str] | None = None) -> int | None:
    """The width to keep to: COLUMNS, or the terminal's; nothing where neither is known."""
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given):
        return int(given)
    try:
        return os.get_terminal_size((stream or sys.stdout).fileno()).columns or 80
    except (OSError, ValueError):
        return None


def say(text: str = "") -> None:
    """Print a line of a command's answer."""
    print(text)  # noqa: T201


def say_text(text: str, first: str = "", rest: str | None = None) -> None:
    """Print words of any length: broken between words, lines after the first indented by `rest`."""
    width = columns()
    say("\n".join(wrapped(text, width, first, rest)) if width else first + text)


def wrapped(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    """The text in lines of a width; a word that is longer stays whole."""
    return textwrap.wrap(
        text,
        min(width, _WIDEST_TEXT),
        initial_indent=first,
        subsequent_indent=" " * len(first) if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]


def say_error(text: str) -> None:
    """Print a line beside the answer, where pipes do not catch it."""
    # There is nowhere to complain that complaining failed.
    with suppress(OSError):
        print(text, file=sys.stderr)  # noqa: T201


def say_json(data: Any) -> None:
    """Print data for a program."""
    say(json.dumps(data, indent=2, ensure_ascii=False, default=str))


def wants_json() -> bool:
    """Whether the command line asks for JSON; errors of the command line itself obey it too."""
    return "--json" in sys.argv[1:]


def say_findings(findings: Iterable[Finding], stream: IO[str] | None = None) -> None:
    """Print findings for a person: code and place, then the rule, then what to do."""
    stream = stream or sys.stderr
    colour = has_colour(stream)
    width = columns(stream) or 100
    for finding in findings:
        word = f"{finding.severity:<7}"
        if colour:
            word = f"\033[{_COLOURS[finding.severity]}m{word}\033[0m"
        lines = [f"{word} {finding.code:<14} {finding.where}".rstrip()]
        for text in (finding.rule, finding.fix):
            lines += wrapped(text, width, " " * 8) if text else []
        print("\n".join(lines), file=stream)


def count_line(findings: Sequence[Finding]) -> str:
    """`2 errors, 1 warning`: how many findings of each severity there are."""
    numbers = {s: sum(finding.severity is s for finding in findings) for s in Severity}
    return ", ".join(counted(number, severity) for severity, number in numbers.items() if number)


def counted(number: int, one: str, many: str = "") -> str:
    """A number and its noun: `1 process`, `2,048 processes`."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
