# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Whether a page of the tutorial shows what its commands print, on this machine and on another.

Words must be the same, and so must whole numbers below 1,000, such as steps, ranks and files, and
what is counted in parameters and tensors, and versions. What may differ has a kind here:

- Other numbers, which are measured: by a tenth. Another processor rounds otherwise, and another
  Python has a few more words in its documentation.
- `A → B`: as such numbers do, but it must go the same way, up or down.
- How far two results are apart, which is written as 3e-05: as numbers do, or both are small.
- Times: by one unit. A busy machine makes minutes of seconds, and not hours.
- Goodput: from a twentieth on, since a busy machine needs longer to start than so short a run
  trains. Below it something has hung.
- Moments, digests, process numbers, rates, and what a model writes: as they like.
"""

import re
from collections.abc import Callable
from difflib import unified_diff
from operator import eq

TOLERANCE = 0.1
"""How far a measured number may be off, of the larger one."""
EXACT_BELOW = 1000
SMALL = 1e-3
"""Differences up to here are those of rounding; the drills themselves allow 5e-4 at most."""
LEAST_GOODPUT = 5.0
UNITS = (
    ("ms",),
    ("s", "seconds", "core-seconds"),
    ("min",),
    ("h", "hour", "hours"),
    ("day", "days"),
)
"""Units of time, from the shortest on, each with its names."""
FIGURE = r"\d+(?:,\d{3})*(?:\.\d+)?(?:E[-+]\d+)?"


def _any(_one: str, _other: str) -> bool:
    """Whether two of a kind are the same that differ from run to run."""
    return True


def _near(one: str, other: str) -> bool:
    """Whether two numbers are the same, or measured and near."""
    first, second = _number(one), _number(other)
    largest = max(first, second)
    is_measured = "." in one + other or largest >= EXACT_BELOW
    return one == other or (is_measured and abs(first - second) <= TOLERANCE * largest)


def _same_way(one: str, other: str) -> bool:
    """Whether two changes are near, and go the same way."""
    (one_from, one_to), (other_from, other_to) = (text.split("→") for text in (one, other))
    ways = {
        _way(_number(one_to) - _number(one_from)),
        _way(_number(other_to) - _number(other_from)),
    }
    return len(ways) == 1 and _near(one_from, other_from) and _near(one_to, other_to)


def _way(change: float) -> int:
    return (change > 0) - (change < 0)


def _both_small(one: str, other: str) -> bool:
    """Whether two differences are those of rounding, or near."""
    first, second = float(one), float(other)
    largest = max(first, second)
    return largest <= SMALL or abs(first - second) <= TOLERANCE * largest


def _near_unit(one: str, other: str) -> bool:
    """Whether two times are at most one unit apart."""
    ranks = [
        next(rank for rank, names in enumerate(UNITS) if text.split()[1] in names)
        for text in (one, other)
    ]
    return abs(ranks[0] - ranks[1]) <= 1


def _some_goodput(one: str, other: str) -> bool:
    """Whether two shares of the time are such as a run has that went on."""
    shares = [_number(re.findall(r"[\d.]+", text)[0]) for text in (one, other)]
    return all(LEAST_GOODPUT <= share <= 100 for share in shares)


def _number(text: str) -> float:
    return float(text.replace(",", ""))


KINDS: dict[str, tuple[str, Callable[[str, str], bool]]] = {
    "TEXT": (r"^\|.*(?:\n\|.*)*", _any),
    "MOMENT": (
        r"\d{4}-\d\d-\d\d[T ]\d\d[-:]\d\d[-:]\d\d(?:[.,]\d+)?Z?|\b\d\d:\d\d(?::\d\d)?\b",
        _any,
    ),
    "DIGEST": (r"sha256:[0-9a-f]+|\b[0-9a-f]{12,}\b", _any),
    "PROCESS": (r"\b(?:process|pid) \d+", _any),
    "ENGINE_TIME": (r"elapsed time per iteration \(ms\): [\d.]+", _any),
    "NORM": (r"grad norm: [\d.]+", _any),
    "RATE": (r"[\d.,]+ [kMG]?i?B/s", _any),
    # Where a run was when its reader pressed a key.
    "STEP": (r"after step \d+", _any),
    # Which rank a drill kills, and when, is drawn by lot.
    "KILL": (r"rank \d+ killed at step \d+", _any),
    "BAR": (r"▕[^▏]*[▁-█][^▏]*▏|[█░]{4,}", _any),
    "GOODPUT": (r"goodput [\d.]+ %|^time +training [\d.]+ %.*$", _some_goodput),
    "DIFFERENCE": (r"\b\de[-+]\d\d\b", _both_small),
    "TIME": (
        rf"(?<![\w.]){FIGURE}\s+(?:{'|'.join(n for names in UNITS for n in names)})\b(?: ago)?",
        _near_unit,
    ),
    "CHANGE": (rf"{FIGURE} → {FIGURE}", _same_way),
    "COUNT": (rf"{FIGURE}(?: [kMBT])?\s+(?:parameters|tensors)\b|\bparameters\s+{FIGURE}", eq),
    "VERSION": (r"\bv?\d+(?:\.\d+){2,}", eq),
    "NUMBER": (FIGURE, _near),
}
"""What may differ, how it looks, and whether two of a kind are the same; the first kind counts."""
KIND = re.compile(
    "|".join(f"(?P<{name}>{look})" for name, (look, _) in KINDS.items()), re.MULTILINE
)
PROGRESS = re.compile(
    r"^  (?:listing the inputs"
    r"|[\w ]+[:;] .*(?:step \d+ of \d+(?:, about .* left)?|\d+%.*))$"
)
"""What commands say off a terminal while they work, now and then."""


def plain(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    """The words of a text with names for what may differ, and what these stand for.

    How its lines were broken makes no difference.
    """
    found = [(str(match.lastgroup), " ".join(match[0].split())) for match in KIND.finditer(text)]
    return KIND.sub(lambda match: f"<{match.lastgroup}>", text).split(), found


def is_same(shown: str, printed: str) -> bool:
    (words, ours), (other_words, theirs) = plain(shown), plain(printed)
    return words == other_words and all(
        kind == other and KINDS[kind][1](one, another)
        for (kind, one), (other, another) in zip(ours, theirs, strict=True)
    )


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
