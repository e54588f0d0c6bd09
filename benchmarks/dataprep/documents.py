# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Files of documentation packages as sections of plain text.

A section is what stands below one heading: a list of blocks (paragraphs, list items, listings).
The extraction is simple on purpose: the benchmark needs running text as a crawl has it, not the
best possible text.
"""

import gzip
import re
from collections.abc import Callable, Iterable, Iterator
from html.parser import HTMLParser

LEAST = 2000
"""Characters from which a document may end at the next heading: gives a median of about 2 KB."""

Section = list[str]
"""The blocks below one heading, the heading first."""

_HEADINGS = frozenset(("h1", "h2", "h3", "h4"))
# What stands around every page of a site, and what is not text.
_LEFT_OUT = frozenset(
    ("script", "style", "nav", "head", "header", "footer", "svg", "button", "form")
)
_INLINE_TAGS = (
    "a abbr acronym b bdi bdo big cite code del dfn em font i img ins kbd mark q s samp small span "
    "strike strong sub sup tt u var wbr"
)
_INLINE = frozenset(_INLINE_TAGS.split())
_SPACE = re.compile(r"\s+")


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.sections: list[Section] = [[]]
        self._words: list[str] = []
        self._left_out = 0
        self._listing = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _INLINE:
            return
        self.end_block()
        if tag in _LEFT_OUT:
            self._left_out += 1
        elif tag in _HEADINGS:
            self.sections.append([])
        elif tag == "pre":
            self._listing += 1

    def handle_endtag(self, tag: str) -> None:
        if tag in _INLINE:
            return
        self.end_block()
        if tag in _LEFT_OUT:
            self._left_out = max(0, self._left_out - 1)
        elif tag == "pre":
            self._listing = max(0, self._listing - 1)

    def handle_data(self, data: str) -> None:
        if not self._left_out:
            self._words.append(data)

    def end_block(self) -> None:
        """Whatever came since the last block is a block."""
        if not self._words:
            return
        text = "".join(self._words)
        self._words.clear()
        text = text.strip("\n").rstrip() if self._listing else _SPACE.sub(" ", text).strip()
        if text:
            self.sections[-1].append(text)


def html_sections(text: str) -> list[Section]:
    page = _Page()
    page.feed(text)
    page.close()
    page.end_block()
    return page.sections


_MACRO = re.compile(r"^[.'](\S*)\s*(.*)$")
_ESCAPE = re.compile(r"\\(?:f(?:\[[^]]*\]|\(..|.)|s[-+]?\d|&|/|,|\||\^|%|:|\)|c)")
_CHARACTER = {
    r"\-": "-",
    r"\(aq": "'",
    r"\(dq": '"',
    r"\(en": "–",
    r"\(em": "—",
    r"\(bu": "•",  # codespell:ignore bu
}
_CHARACTER |= {r"\e": "\\", r"\(co": "©", r"\(lq": "“", r"\(rq": "”", r"\~": " ", r"\ ": " "}
_CHARACTER |= {r"\(ti": "~", r"\(ha": "^", r"\(rs": "\\", r"\[rs]": "\\", r"\[aq]": "'"}
_CHARACTERS = re.compile("|".join(map(re.escape, sorted(_CHARACTER, key=len, reverse=True))))
_QUIET_MACROS = (
    "TH Dd Os Dt so ds de nr if ie el ad na nh hy ta tr mk UR UE MT ME ig ."  # codespell:ignore
)
_QUIET = frozenset(_QUIET_MACROS.split())


def man_sections(text: str) -> list[Section]:
    """The sections of a manual page; macros are dropped and their words are kept."""
    sections: list[Section] = [[]]
    words: list[str] = []

    def end_block() -> None:
        if words:
            sections[-1].append(" ".join(words))
            words.clear()

    for line in text.splitlines():
        plain = _CHARACTERS.sub(lambda m: _CHARACTER[m[0]], _ESCAPE.sub("", line))
        macro = _MACRO.match(plain)
        if macro is None:
            if plain.strip():
                words.append(plain.strip())
            else:
                end_block()
            continue
        name, rest = macro[1], macro[2].replace('"', "")
        if name.startswith('\\"') or name in _QUIET:
            continue
        if name in ("SH", "SS", "Sh", "Ss"):
            end_block()
            sections.append([])
        elif name in ("PP", "P", "LP", "TP", "IP", "HP", "Pp", "It", "nf", "fi", "EX", "EE", "sp"):
            end_block()
            if name not in ("IP", "It"):
                continue
        if rest:
            words.append(rest)
    end_block()
    return sections


def plain_sections(text: str) -> list[Section]:
    """Paragraphs of a plain text, as sections of one each: a text has no headings to go by."""
    blocks = re.split(r"\n\s*\n", text.replace("\r\n", "\n"))
    return [[block.rstrip()] for block in blocks if block.strip()]


_READERS: tuple[tuple[re.Pattern[str], Callable[[str], list[Section]]], ...] = (
    (re.compile(r"/share/man/(?:[^/]+/)?man\d/"), man_sections),
    (re.compile(r"\.x?html?(?:\.gz)?$"), html_sections),
    (re.compile(r"\.(?:txt|rst|md|pod|dict\.dz)(?:\.gz)?$"), plain_sections),
)
# Indexes, source listings with line numbers, and texts that are in another form beside it.
_NOT_PROSE = re.compile(
    r"/_sources/|/_modules/|/genindex|/searchindex|/index-files/|/index-all|-source\.html|"
    r"_8[hc]_source|/src/[^/]+\.html$|/class-use/|/all\.html$|/copyright$|changelog",
    re.IGNORECASE,
)


def reader_of(path: str) -> Callable[[str], list[Section]] | None:
    """What reads a file of that path; None when it holds no text of use."""
    if _NOT_PROSE.search(path):
        return None
    return next((reader for pattern, reader in _READERS if pattern.search(path)), None)


def text_of(path: str, data: bytes) -> str:
    """The text of a file. What is not UTF-8 is taken as Latin-1, as old manuals are."""
    if path.endswith((".gz", ".dz")):
        data = gzip.decompress(data)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


def documents_of(sections: Iterable[Section], least: int = LEAST) -> Iterator[list[str]]:
    """Sections put together, in their order, until a document has `least` characters."""
    blocks: list[str] = []
    size = 0
    for section in sections:
        blocks += section
        size += sum(map(len, section))
        if size >= least:
            yield blocks
            blocks, size = [], 0
    if blocks:
        yield blocks
