# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Convert errors from the YAML parser to findings at the location to fix.

The parser reports where it gave up: often the end of the file, far from the unclosed quote or
bracket. Findings never quote the line, because it may contain a secret.
"""

import re
import unicodedata
from bisect import bisect_right

from ruamel.yaml.error import MarkedYAMLError, YAMLError

from seatrial.codes.spec import SpecCode
from seatrial.findings import Finding, Severity, Where
from seatrial.secrets.redaction import REDACTED, looks_secret

_LINE_END = re.compile(r"\r\n|\r|\n")
_KEY_BEFORE = re.compile(r":\s|[\"']\s*$")
_HYPHEN_WITHOUT_SPACE = re.compile(r"\s*-[^\s-]")
_UNCLOSED = {
    "while parsing a flow sequence": ("[", "]"),
    "while parsing a flow mapping": ("{", "}"),
}
_NO_ALIAS = "YAML reads text that starts with * or & as an alias or an anchor."
_WRONG_FROM_THE_START = (
    (
        "quoted scalar",
        "end of stream",
        "this quote is never closed.",
        "Close the quote at the end of the value, or remove it.",
    ),
    (
        "",
        "could not find expected ':'",
        "the line is not a key: value line.",
        "Write a colon and a space after the key.",
    ),
    ("while scanning an alias", "", _NO_ALIAS, "Put the text in quotes."),
    ("while scanning an anchor", "", _NO_ALIAS, "Put the text in quotes."),
)
"""Mistakes at the start of the parser's context: parts of its context and problem, rule, fix."""

# Characters that look like spaces but are not spaces in YAML, where a space is expected.
ODD_BLANK = re.compile(r"(?:^ *|(?<=[:,\[{-]) *)([\u00a0\u1680\u2000-\u200b\u202f\u205f\u3000])")

Problem = tuple[int, int, str, str]
"""Line, column, rule and fix."""


def odd_blank(character: str) -> tuple[str, str]:
    """Return rule and fix for a character that looks like a space but is not one in YAML."""
    name = unicodedata.name(character).lower()
    rule = f"U+{ord(character):04X} ({name}) is not a space in YAML."
    return rule, "Replace it with an ordinary space. Many editors can show these characters."


class Lines:
    """The lines of a text as editors count them; YAML recognises more line breaks."""

    def __init__(self, text: str) -> None:
        """Index the start of each line of the text."""
        self._text = text
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def place(self, index: int) -> tuple[int, int]:
        """Return line and column of the character at the index, both counted from 1."""
        line = bisect_right(self._starts, index)
        return line, index - self._starts[line - 1] + 1

    def __getitem__(self, line: int) -> str:
        """Return the content of a line, counted from 1; empty if there is no such line."""
        if not 1 <= line <= len(self._starts):
            return ""
        start = self._starts[line - 1]
        return _LINE_END.split(self._text[start : start + 10_000], maxsplit=1)[0]


def finding_of(error: YAMLError, text: str, file: str, quoted: tuple[int, int]) -> Finding:
    """Convert a parser error to a finding with a fix.

    `quoted` is the start and end of the last quoted text. If the text spans lines and the parser
    gave up right after it, the closing quote was meant to open a different text.
    """
    lines = Lines(text)
    code = SpecCode.SYNTAX
    if not isinstance(error, MarkedYAMLError):
        line, column, rule, fix = _character(error, text, lines)
    else:
        mark = error.problem_mark or error.context_mark
        line, column = lines.place(mark.index) if mark else (1, 1)
        content = lines[line]
        indent = content[: len(content) - len(content.lstrip())]
        begin, end = lines.place(quoted[0]), lines.place(quoted[1])
        if begin[0] < end[0] == line:
            line, column = begin
            rule = f"this quote is not closed until line {end[0]}."
            fix = "Close the quote at the end of the value, or remove it."
        elif "\t" in indent:
            code = SpecCode.TAB
            column = indent.index("\t") + 1
            rule = "the line is indented with a tab, which YAML does not allow."
            fix = "Replace the tab with spaces."
        elif odd := _odd_blank_near(lines, line, error):
            line, column, rule, fix = odd
        else:
            line, column, rule, fix = _problem(error, lines, line, column)
    place = Where(file=file, line=line, column=column)
    return Finding(code, Severity.ERROR, place, rule, "", fix)


def _odd_blank_near(lines: Lines, line: int, error: MarkedYAMLError) -> Problem | None:
    """Find an odd space where the parser's context starts, where it gave up, or one line above."""
    began = lines.place(error.context_mark.index)[0] if error.context_mark else line
    for number in (began, line, line - 1):
        found = ODD_BLANK.search(lines[number])
        if found:
            return number, found.start(1) + 1, *odd_blank(found[1])
    return None


def _problem(error: MarkedYAMLError, lines: Lines, line: int, column: int) -> Problem:
    """Explain common parser errors; for others, return the parser's own message."""
    context, problem = str(error.context or ""), str(error.problem or "")
    opened = lines.place(error.context_mark.index) if error.context_mark else (line, column)
    for around, complaint, rule, fix in _WRONG_FROM_THE_START:
        if around in context and complaint in problem:
            return *opened, rule, fix
    if "unknown escape" in problem:
        letter = _visible(lines[line][column - 1 : column])
        rule = f"in double quotes, a backslash starts an escape, but \\{letter} is not a valid one."
        return line, column, rule, "Use single quotes, or write the backslash twice."
    if context in _UNCLOSED:
        return _unclosed(*_UNCLOSED[context], opened, (line, column))
    if "mapping values are not allowed" in problem:
        return _misplaced_key(lines, line, column)
    if "cannot start any token" in problem:
        first = lines[line][column - 1 : column]
        if first == "\t":
            return line, column, "there is a tab between values.", "Replace the tab with spaces."
        rule = f"a value cannot start with {_visible(first)}."
        return line, column, rule, "Put the value in quotes."
    if "sequence entries are not allowed" in problem:
        rule = "a list cannot start on the same line as its key."
        return line, column, rule, "Put each item on a separate line, indented, after a hyphen."
    if "expected <block end>" in problem:
        return _misaligned(problem, lines, line, column)
    detail = ", ".join(part for part in (context, problem) if part)
    fix = "Check the indentation, colons, quotes and brackets in this line and the line above."
    return line, column, f"the file is not valid YAML: {_visible(detail)}.", fix


def _visible(text: str) -> str:
    """Escape unprintable characters; redact text that looks like a secret."""
    if looks_secret(text):
        return REDACTED
    return text if text.isprintable() else repr(text)[1:-1]


def _unclosed(bracket: str, closing: str, opened: tuple[int, int], end: tuple[int, int]) -> Problem:
    """Explain a bracket that is not closed."""
    if opened[0] == end[0]:
        fix = f"Put a comma between items, close the {bracket}, or put the text in quotes."
        return *end, f"a comma or {closing} is missing before this character.", fix
    rule = f"this {bracket} is not closed before line {end[0]}."
    return *opened, rule, f"Close it with {closing}."


def _misplaced_key(lines: Lines, line: int, column: int) -> Problem:
    """Explain a colon where no key can be: inside a value, or in a line indented too far."""
    content = lines[line]
    if _KEY_BEFORE.search(content[: column - 1]):
        rule = "the line has a second colon, as if the value were a key."
        return line, column, rule, "Put the value in quotes."
    if _HYPHEN_WITHOUT_SPACE.match(lines[line - 1]):
        start = len(lines[line - 1]) - len(lines[line - 1].lstrip()) + 1
        rule = "a hyphen starts a list item only if a space follows."
        return line - 1, start, rule, "Put a space after the hyphen."
    start = len(content) - len(content.lstrip()) + 1
    rule = "the line is indented further than the line above allows."
    return line, start, rule, "Indent both lines alike, or move this line below its section."


def _misaligned(problem: str, lines: Lines, line: int, column: int) -> Problem:
    """Explain a line that does not continue the enclosing section or list."""
    if lines[line][: column - 1].strip():
        rule = "the value ends before this character, and the rest of the line is not valid."
        return line, column, rule, "Put the whole value in quotes, or remove the rest of the line."
    if problem.endswith("'-'"):
        rule = "a list item is among key: value lines."
        return line, column, rule, "Move the item below the key of its list, or remove the hyphen."
    rule = "the indentation does not match any line above."
    return line, column, rule, "Indent the line like the other lines in its section."


def _character(error: YAMLError, text: str, lines: Lines) -> Problem:
    """Explain a character that YAML does not allow, such as NUL."""
    position = int(getattr(error, "position", 0) or 0)
    number = ord(text[position : position + 1] or "\0")
    rule = f"YAML does not allow the character U+{number:04X}."
    fix = "Remove the character; if there are more, save the file as UTF-8 text."
    return *lines.place(position), rule, fix
