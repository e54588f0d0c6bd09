# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a page of the tutorial shows what its commands print, on this machine and on another.

Words must be the same. What differs from run to run has a name here: times, dates, process
numbers, digests, and what a model writes. Other numbers that are measured or counted, which are
those with a decimal point and those from 1,000 on, may be off by a tenth: another processor rounds
otherwise, and another Python has a few more words in its documentation. Small whole numbers, such
as steps, ranks and files, must be the same.
"""

import re
from difflib import unified_diff

TOLERANCE = 0.1
"""How far a measured number may be off, of the larger one."""
EXACT_BELOW = 1000
VARYING = (
    (r"(?:^\|.*\n?)+", "| TEXT\n"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d[-:]\d\d[-:]\d\d(?:[.,]\d+)?Z?", "MOMENT"),
    (r"\b\d\d:\d\d(?::\d\d)?\b", "MOMENT"),
    (r"sha256:[0-9a-f]+", "DIGEST"),
    (r"\b[0-9a-f]{12,}\b", "DIGEST"),
    (r"\b(?:process|pid) \d+", "PROCESS"),
    (r"(?<![\w.])[\d.,]+ (?:ms|s|min|h|hours?|days?|seconds|core-seconds)\b(?: ago)?", "TIME"),
    (r"[\d.,]+ [kMG]?i?B/s", "RATE"),
    (r"\d[\d.,]*e[-+]\d+", "TINY"),
    # Where a run was when its reader pressed a key, and how fast.
    (r"after step \d+", "after STEP"),
    # Which rank a drill kills, and when, is drawn by lot.
    (r"rank \d+ killed in step \d+", "KILL"),
    (r"elapsed time per iteration \(ms\): [\d.]+", "TIME"),
    (r"grad norm: [\d.]+", "NORM"),
    (r"▕[^▏]*[▁-█][^▏]*▏|[█░]{4,}", "BAR"),
    (r"goodput [\d.]+ %", "goodput SHARE"),
    (r"^time +training .*$", "time SHARES"),
)
"""What is different every time, and what stands for it."""
PROGRESS = re.compile(r"^  (?:listing the inputs|[\w ]+[:;] .*(?:step \d+ of \d+|\d+%.*))$")
"""What commands say off a terminal while they work, now and then."""
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def plain(text: str) -> list[str]:
    """The words of a text with names for what varies, however its lines were broken."""
    for pattern, name in VARYING:
        text = re.sub(pattern, name, text, flags=re.MULTILINE)
    return text.split()


def is_same(shown: str, printed: str) -> bool:
    """Whether two texts say the same."""
    ours, theirs = plain(shown), plain(printed)
    return len(ours) == len(theirs) and all(map(_same_word, ours, theirs))


def _same_word(one: str, other: str) -> bool:
    """Whether two words are the same, but for measured numbers."""
    if one == other:
        return True
    if NUMBER.sub("#", one) != NUMBER.sub("#", other):
        return False
    return all(map(_near, NUMBER.findall(one), NUMBER.findall(other)))


def _near(one: str, other: str) -> bool:
    """Whether two numbers are the same, or measured and near."""
    if one == other:
        return True
    first, second = (float(text.replace(",", "")) for text in (one, other))
    largest = max(first, second)
    is_measured = "." in one + other or largest >= EXACT_BELOW
    return is_measured and abs(first - second) <= TOLERANCE * largest


def difference(shown: str, printed: str) -> str:
    """What differs, for a person; empty where both say the same."""
    if is_same(shown, printed):
        return ""
    lines = unified_diff(shown.splitlines(), printed.splitlines(), "shown", "printed", lineterm="")
    return "\n".join(lines)


def without_progress(printed: str) -> str:
    """What a command printed, without its reports of progress and blanks at the ends of lines."""
    lines = [line.rstrip() for line in printed.rstrip().splitlines()]
    return "".join(f"{line}\n" for line in lines if not PROGRESS.match(line))
