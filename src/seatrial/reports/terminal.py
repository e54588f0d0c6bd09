# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""How commands speak: lines, findings and JSON; colour only on a terminal."""

import codecs
import json
import os
import re
import shlex
import sys
import textwrap
from collections.abc import Buffer, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import IO, Any

from seatrial.findings import Finding, Severity
from seatrial.secrets.redaction import redact, redact_tree

_COLOURS = {Severity.ERROR: "31;1", Severity.WARNING: "33;1", Severity.NOTE: "36"}
_PLAIN = {
    "×": "x",
    "·": "|",
    "→": "->",
    "−": "-",
    "–": "-",
    "…": "...",
    "±": "+/-",
    "▕": "[",
    "▏": "]",
    "│": "|",
    "─": "-",
    "━": "-",
    "├": "|",
    "└": "`",
    "■": "#",
    # Bars, from the lowest to the full one.
    **dict(zip("░▁▂▃▄▅▆▇█", "..:-=+*%#", strict=True)),
}
"""What stands in for a character that a stream's encoding does not have."""
_NAMES_NEXT = ContextVar("names_next", default=True)
"""True if a command names the one that follows; False inside `hidden_next`."""
_WIDEST_TEXT = 120
"""Longer lines are hard to read, however wide the terminal is."""
_CONTROLS = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, movements of the cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, clipboards, links
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
"""What controls a terminal; the ends of lines and tabulators do no harm."""


class OutputLostError(OSError):
    """A standard stream takes nothing more; the cause is the operating system's error."""


class _StandardStream(FileIO):
    """The file of a standard stream: its errors can be told from those of any other file."""

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputLostError from error


def prepare_streams() -> None:
    """Let no character stop a command, and let errors of the streams be known as theirs."""
    codecs.register_error("seatrial", _plainly)
    sys.stdout, sys.stderr = _prepared(sys.stdout), _prepared(sys.stderr)


def _prepared[T](stream: T) -> T | TextIOWrapper:
    """The stream, which writes plainly what it cannot encode and says that an error is its own."""
    if not isinstance(stream, TextIOWrapper):
        return stream
    file = getattr(stream.buffer, "raw", stream.buffer)
    # Where it is not a plain file, as in a console of Windows, it stays what it is.
    if type(file) is not FileIO:
        stream.reconfigure(errors="seatrial")
        return stream
    stream.flush()
    own = _StandardStream(file.fileno(), "wb", closefd=False)
    return TextIOWrapper(
        # PYTHONUNBUFFERED leaves the buffer out.
        own if file is stream.buffer else BufferedWriter(own),
        encoding=stream.encoding,
        errors="seatrial",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _plainly(error: UnicodeError) -> tuple[str, int]:
    """The nearest plain text for what cannot be encoded."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(c, "?") for c in error.object[error.start : error.end]), error.end


@contextmanager
def guarded_output() -> Iterator[None]:
    """Have an output that is lost (full disk, closed pipe) found out by the end of a command."""
    yield
    sys.stdout.flush()


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


def harmless(text: str) -> str:
    """The text without what controls a terminal: a log may hold anything."""
    return _CONTROLS.sub("", text)


def say(text: str = "") -> None:
    """Print a line of a command's answer."""
    # Redacted last: without its colours a text may hold a secret that they had cut.
    print(redact(harmless(text)))  # noqa: T201


def say_painted(text: str, paint: Callable[[str], str]) -> None:
    """Print lines of a command's answer; on a terminal, with the colours that `paint` adds."""
    clean = redact(harmless(text))
    print(paint(clean) if has_colour(sys.stdout) else clean)  # noqa: T201


def say_text(text: str, first: str = "", rest: str | None = None, width: int | None = None) -> None:
    """Print words of any length: broken between words, lines after the first indented by `rest`.

    Off a terminal they are broken only where a width is given.
    """
    width = columns() or width
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
        print(redact(harmless(text)), file=sys.stderr)  # noqa: T201


@contextmanager
def hidden_next() -> Iterator[None]:
    """Run a command that does not name the one that follows, because its caller does."""
    before = _NAMES_NEXT.set(False)
    try:
        yield
    finally:
        _NAMES_NEXT.reset(before)


def hides_next() -> bool:
    """True if another command of ours called this one and says what comes next."""
    return not _NAMES_NEXT.get()


def seatrial_words(*words: object) -> str:
    """A command of ours as it is typed; overrides belong to it, or it would mean another run."""
    return shlex.join(["seatrial", *map(str, words)])


def say_following(command: str, label: str = "next  ") -> None:
    """Name the command that follows, unless the caller of this one does."""
    if not hides_next():
        say(f"{label}{command}")


def say_next(command: str) -> None:
    """Name the next step beside a document that was printed, for who reads it on a terminal."""
    if sys.stdout.isatty():
        say_error(f"next  {command}")


def say_json(data: Any, indent: int | None = 2) -> None:
    """Print data for a program; in a line where there is no indent."""
    # Redacted as data: as text it might not be JSON any more.
    text = json.dumps(
        redact_tree(data),
        indent=indent,
        ensure_ascii=False,
        default=lambda other: redact(str(other)),
    )
    # JSON spells out the others itself; data is not to be changed.
    print(re.sub(r"[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text))  # noqa: T201


def say_findings(findings: Iterable[Finding], stream: IO[str] | None = None) -> None:
    """Print findings for a person: code and place, then the rule, then what to do."""
    stream = stream or sys.stderr
    colour = has_colour(stream)
    width = columns(stream) or 100
    for finding in findings:
        word = f"{finding.severity:<7}"
        if colour:
            word = f"\033[{_COLOURS[finding.severity]}m{word}\033[0m"
        lines = [f"{word} {finding.code:<16} {finding.where}".rstrip()]
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
