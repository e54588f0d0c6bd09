# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Keep phrases out of messages, comments and pages that readers stumble over.

Reads string literals and comments of the source, its TOML tables, and the prose of the
documentation (no code blocks, no inline code). Each phrase has the word to use instead.
"""

import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PHRASES = {
    r"told|tells": "report, print, show",
    r"said": "state, specify, print",
    r"mend(?:ed|s|ing)?": "fix, repair",
    r"anew": "again, from scratch",
    r"begun": "started",
    r"go(?:es|ing)? on": "continue",
    r"went on": "continued",
    r"beside": "next to, besides",
    r"all the way": "finished",
    r"last words": "crash report",
    r"watchkeeper": "monitor",
    r"voyages?": "pipeline, run",
    r"hold still": "pause",
    r"(?:or|is|are|returns?|yields?) nothing(?= (?:where|when|if|else)\b|[.;:,)]|$)": (
        "None, empty, not set, missing"
    ),
}
_BANNED = re.compile(rf"(?<![\w-])(?:{'|'.join(PHRASES)})(?![\w-])", re.IGNORECASE)
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`[^`\n]*`")


def main() -> int:
    """Print every occurrence; the exit code is 1 if there is one."""
    found = [one for file in _files() for one in _occurrences(file)]
    for file, line, phrase in found:
        print(f"{file}:{line}: {phrase!r}: use {_instead(phrase)}")
    print(f"{len(found)} phrases to replace")
    return 1 if found else 0


def _files() -> Iterator[Path]:
    yield from sorted((ROOT / "src").rglob("*.py"))
    # The catalog's notes are quotes of facts, and part of the digest of kept plans.
    tables = sorted((ROOT / "src").rglob("*.toml"))
    yield from (file for file in tables if "catalog" not in file.parts)
    # The reference is generated from the source.
    pages = sorted((ROOT / "docs").rglob("*.md"))
    yield from (file for file in pages if "reference" not in file.parts)
    yield from sorted(ROOT.glob("*.md"))


def _occurrences(file: Path) -> Iterator[tuple[str, int, str]]:
    name = str(file.relative_to(ROOT))
    for line, text in _texts(file):
        for match in _BANNED.finditer(text):
            yield name, line + text.count("\n", 0, match.start()), match[0]


def _texts(file: Path) -> Iterator[tuple[int, str]]:
    """Yield the first line and the text of every piece of prose."""
    if file.suffix == ".md":
        text = file.read_text("utf-8")
        blank = lambda match: re.sub(r"[^\n]", " ", match[0])  # noqa: E731
        yield 1, _INLINE.sub(blank, _FENCED.sub(blank, text))
    elif file.suffix == ".toml":
        yield 1, file.read_text("utf-8")
    else:
        kinds = {tokenize.STRING, tokenize.COMMENT, tokenize.FSTRING_MIDDLE}
        with file.open("rb") as stream:
            for token in tokenize.tokenize(stream.readline):
                # A literal without a space is a name or a key of a file format.
                if token.type in kinds and " " in token.string:
                    yield token.start[0], token.string


def _instead(phrase: str) -> str:
    return next(
        word for pattern, word in PHRASES.items() if re.fullmatch(pattern, phrase, re.IGNORECASE)
    )


if __name__ == "__main__":
    sys.exit(main())
