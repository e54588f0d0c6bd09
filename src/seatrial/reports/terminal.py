# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Print lines, findings and JSON. Colour is used only on a terminal."""

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
    # Bars, from the lowest to the highest.
    **dict(zip("░▁▂▃▄▅▆▇█", "..:-=+*%#", strict=True)),
}
"""The replacement for a character that the stream's encoding cannot represent."""
_NAMES_NEXT = ContextVar("names_next", default=True)
"""True if a command prints its next step; False inside `hidden_next`."""
NO_NEXT = "--no-next"
"""The hidden option of `seatrial` for `seatrial run`, which calls other commands and names the next
step itself."""
_WIDEST_TEXT = 120
"""The maximum width of wrapped text: longer lines are hard to read."""
_CONTROLS = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, cursor movements
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, clipboards, links
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
)
"""Control sequences of a terminal, except line ends and tabs."""


class OutputLostError(OSError):
    """A standard stream cannot be written. The cause is the operating system's error."""


class _StandardStream(FileIO):
    """The file of a standard stream, with an error type of its own."""

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputLostError from error


def prepare_streams() -> None:
    """Replace characters that cannot be encoded, and raise `OutputLostError` on write errors."""
    codecs.register_error("seatrial", _plainly)
    sys.stdout, sys.stderr = _prepared(sys.stdout), _prepared(sys.stderr)


def _prepared[T](stream: T) -> T | TextIOWrapper:
    """Wrap the stream so that it replaces characters and raises `OutputLostError`."""
    if not isinstance(stream, TextIOWrapper):
        return stream
    file = getattr(stream.buffer, "raw", stream.buffer)
    # Anything but a plain file, such as a Windows console, keeps its own type.
    if type(file) is not FileIO:
        stream.reconfigure(errors="seatrial")
        return stream
    stream.flush()
    own = _StandardStream(file.fileno(), "wb", closefd=False)
    return TextIOWrapper(
        # PYTHONUNBUFFERED removes the buffer.
        own if file is stream.buffer else BufferedWriter(own),
        encoding=stream.encoding,
        errors="seatrial",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def _plainly(error: UnicodeError) -> tuple[str, int]:
    """Return the closest plain text for characters that cannot be encoded."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_PLAIN.get(c, "?") for c in error.object[error.start : error.end]), error.end


@contextmanager
def guarded_output() -> Iterator[None]:
    """Flush at the end of a command, so that a full disk or a closed pipe is reported."""
    yield
    sys.stdout.flush()


def has_colour(stream: IO[str]) -> bool:
    """True if the stream is a terminal and colour is not disabled (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def columns(stream: IO[str] | None = None) -> int | None:
    """Return the width from COLUMNS or the terminal. None if neither is known."""
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given):
        return int(given)
    try:
        return os.get_terminal_size((stream or sys.stdout).fileno()).columns or 80
    except (OSError, ValueError):
        return None


def harmless(text: str) -> str:
    """Remove terminal control sequences. A log can contain anything."""
    return _CONTROLS.sub("", text)


def say(text: str = "") -> None:
    """Print a line to standard output."""
    # Redact last: removing colours can join the parts of a secret.
    print(redact(harmless(text)))  # noqa: T201


def say_painted(text: str, paint: Callable[[str], str]) -> None:
    """Print lines of a command's answer; on a terminal, with the colours that `paint` adds."""
    clean = redact(harmless(text))
    print(paint(clean) if has_colour(sys.stdout) else clean)  # noqa: T201


def say_text(text: str, first: str = "", rest: str | None = None, width: int | None = None) -> None:
    """Print text, wrapped between words, with lines after the first indented by `rest`.

    Without a terminal, text is wrapped only if a width is given.
    """
    width = columns() or width
    say("\n".join(wrapped(text, width, first, rest)) if width else first + text)


def wrapped(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    """Wrap text to a width without breaking long words."""
    return textwrap.wrap(
        text,
        min(width, _WIDEST_TEXT),
        initial_indent=first,
        subsequent_indent=" " * len(first) if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]


def say_error(text: str) -> None:
    """Print a line to standard error."""
    # A failure to write to standard error cannot be reported anywhere.
    with suppress(OSError):
        print(redact(harmless(text)), file=sys.stderr)  # noqa: T201


@contextmanager
def hidden_next() -> Iterator[None]:
    """Suppress the next step of a command, because its caller prints one."""
    before = _NAMES_NEXT.set(False)
    try:
        yield
    finally:
        _NAMES_NEXT.reset(before)


def hides_next() -> bool:
    """True if the caller of this command prints the next step."""
    return not _NAMES_NEXT.get()


def seatrial_words(*words: object) -> str:
    """Return a `seatrial` command as you type it, including overrides."""
    return shlex.join(["seatrial", *map(str, words)])


def say_following(command: str, label: str = "next  ") -> None:
    """Print the next command, unless the caller prints one."""
    if not hides_next():
        say(f"{label}{command}")


def say_next(command: str) -> None:
    """Print the next step to standard error if standard output is a terminal."""
    if sys.stdout.isatty():
        say_error(f"next  {command}")


def say_json(data: Any, indent: int | None = 2) -> None:
    """Print data as JSON, on one line if `indent` is None."""
    # Redact the data, not the text: redacted text might not be valid JSON.
    text = json.dumps(
        redact_tree(data),
        indent=indent,
        ensure_ascii=False,
        default=lambda other: redact(str(other)),
    )
    # `json.dumps` escapes the other control characters.
    print(re.sub(r"[\x7f-\x9f]", lambda found: f"\\u{ord(found[0]):04x}", text))  # noqa: T201


def say_findings(findings: Iterable[Finding], stream: IO[str] | None = None) -> None:
    """Print findings as text: severity, code and location, then the rule, then the fix."""
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
    """Count findings by severity: `2 errors, 1 warning`."""
    numbers = {s: sum(finding.severity is s for finding in findings) for s in Severity}
    return ", ".join(counted(number, severity) for severity, number in numbers.items() if number)


def counted(number: int, one: str, many: str = "") -> str:
    """Format a number with its noun: `1 process`, `2,048 processes`."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
