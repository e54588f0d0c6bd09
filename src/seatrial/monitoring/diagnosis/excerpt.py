# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The lines of a file that may indicate a failure, and the steps between them."""

import re
from array import array
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

from seatrial.monitoring.diagnosis.evidence import EvidenceFile, EvidenceKind
from seatrial.monitoring.logs.wrapping import seconds_of
from seatrial.secrets.redaction import LineRedactor

WHOLE_LINES = 20_000
"""All of the first lines of a file are kept; after that, only those that match `TROUBLE`."""
MOST_ALIKE = 100
"""Maximum number of kept lines that differ only in digits."""
LONGEST = 2_000
"""Characters of a line that are examined."""
_MOST_OUTLINES = 20_000
"""Size of the cache of outlines."""

TROUBLE = re.compile(
    r"error|err\b|fail|exception|warn|fatal|kill|abort|crash|panic|denied|refus|forbid|reject"
    r"|time[d]?[ -]?out|deadline|unable|cannot|can't|could ?n[o']t|not |no |n't|missing|mismatch"
    r"|corrupt|invalid|illegal|nan\b|\binf\b|out of|oom|xid|evict|preempt|exceed|insufficient"
    r"|unschedul|back-?off|signal|sig[a-z]{3,4}\b|cancel|segfault|fault|lost|unreach|closed"
    r"|too many|stuck|blocked|slowdown|assert|exit ?code|unrecognized|divisible|already in use"
    r"|truncated|unexpected|stopp?ing|terminat|unknown|async event|invoked|version|via |culprit"
    r"|interrupt|lockup|core dumped|unsupported|require|watchdog|usage of|low on|active|reuse"
    r"|neither|leaked|duplicate|return code|nxdomain|died|down\b|unplugged"
    r"|wait|schedule|state:d|fsync|socket|differ",
    re.IGNORECASE,
)
"""A line without a match does not indicate a failure."""

SAVES = re.compile(r"saving checkpoint at iteration|success\w* saved checkpoint", re.IGNORECASE)
"""Lines about saves are kept however many there are: the last one matters."""
_STEP = re.compile(
    r"(?:^|[\s\]])(?:iteration\s+(\d+)/|\[batch=(\d+)/"
    r"|(?:iter|step|global_step)[ :=]+(\d+)\b.*loss)"
)
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_DIGITS = re.compile(r"[0-9a-fA-Fx]*[0-9]+")
_OUTLINE = str.maketrans("123456789", "000000000")
_RANK = re.compile(
    r"^\W{0,4}(?:rank|default|trainer)[ _=:]?(\d{1,6})\]|\[[Rr]ank (\d{1,6})\]"
    r"|\brank[=:] ?(\d{1,6})\b|Rank (\d{1,6})[:\]]|^(\d{1,6}): "
)
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_DMESG = re.compile(r"^\[(\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})\]")


@dataclass(frozen=True, slots=True)
class KeptLine:
    """A line that may matter."""

    number: int
    """Line number, from 1."""
    text: str
    """The line without ANSI escape codes."""

    @property
    def rank(self) -> int | None:
        """The rank that the line names, if any."""
        found = _RANK.search(self.text)
        return int(next(group for group in found.groups() if group)) if found else None

    @property
    def time(self) -> float | None:
        """Seconds since 1970, if the line has a date."""
        found = _ISO.search(self.text, 0, 80)
        if found:
            return seconds_of(found[0].replace(",", "."))
        kernel = _DMESG.match(self.text)
        if kernel is None:
            return None
        try:
            moment = datetime.strptime(kernel[1], "%a %b %d %H:%M:%S %Y")
        except ValueError:
            return None
        return moment.replace(tzinfo=UTC).timestamp()


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The kept lines of a file."""

    name: str
    kind: EvidenceKind
    lines: tuple[KeptLine, ...]
    step_lines: "array[int]"
    """Numbers of the lines that report a step."""
    steps: "array[int]"

    def steps_after(self, number: int) -> int:
        """Return how many lines after this one report a step."""
        return len(self.step_lines) - bisect_right(self.step_lines, number)

    def step_before(self, number: int) -> int | None:
        """Return the last step reported before a line."""
        place = bisect_right(self.step_lines, number)
        return self.steps[place - 1] if place else None

    def around(self, number: int, within: int) -> str:
        """Return the kept lines around one, as one text."""
        first = bisect_right(self.lines, number - within - 1, key=lambda line: line.number)
        last = bisect_right(self.lines, number + within, key=lambda line: line.number)
        return "\n".join(line.text for line in self.lines[first:last])


def read_excerpt(file: EvidenceFile) -> Excerpt:
    """Read a file in one pass."""
    kept: list[KeptLine] = []
    step_lines, steps = array("q"), array("q")
    shapes = _Shapes()
    alike: Counter[str] = Counter()
    redact = LineRedactor()
    for number, raw in enumerate(file.lines(), 1):
        text = raw[:LONGEST].rstrip()
        if not text:
            continue
        step = _STEP.search(text, 0, 200) if _may_be_step(text) else None
        if step is not None:
            step_lines.append(number)
            steps.append(int(next(group for group in step.groups() if group)))
        shape = shapes.of(text)
        # Most lines of a long log repeat a known shape, which is a fast check.
        is_old = alike[shape] >= MOST_ALIKE or (number > WHOLE_LINES and not TROUBLE.search(text))
        if is_old and not ("checkpoint" in text and SAVES.search(text)):
            continue
        alike[shape] += 1
        # Redact before truncating: half a token is no longer recognised.
        whole = redact(raw, LONGEST).rstrip()
        kept.append(KeptLine(number, _ANSI.sub("", whole) if "\x1b" in whole else whole))
    return Excerpt(file.name, file.kind, tuple(kept), step_lines, steps)


def _may_be_step(text: str) -> bool:
    """True if a line contains a word that every step line has: faster than a regex search."""
    return "iteration" in text or "batch=" in text or "loss" in text


class _Shapes:
    """Maps lines to shapes: lines of one shape differ only in their numbers."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, text: str) -> str:
        # Digits do not affect the shape, so few outlines need the regex.
        outline = text[:160].translate(_OUTLINE)
        shape = self._known.get(outline)
        if shape is None:
            if len(self._known) >= _MOST_OUTLINES:
                self._known.clear()
            shape = self._known[outline] = _DIGITS.sub("#", outline)
        return shape
