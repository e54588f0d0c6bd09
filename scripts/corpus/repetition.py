# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Measure how much of the corpus repeats itself: the share of runs of 13 words seen before.

    python -m scripts.corpus.repetition

Making the corpus leaves out paragraphs that are the same; this finds text that is the same in
another form, or nearly the same. A run counts when it was in an earlier document. One in 64 is
looked at, chosen by what it says, so that both of two equal runs are.
"""

import json
import re
import sys
import zlib
from collections import Counter

import zstandard

from scripts.make_corpus import PARTS, home

WORDS = 13
"""Words of a run, as is usual for finding text that a model has seen."""
_WORD = re.compile(r"\w+")


def runs_of(text: str) -> list[bytes]:
    """A sample of the runs of words of a text."""
    words = _WORD.findall(text.lower())
    # First by the first word, which is cheap, then by the whole run.
    starts = (i for i in range(len(words) - WORDS + 1) if not zlib.crc32(words[i].encode()) % 16)
    runs = (" ".join(words[i : i + WORDS]).encode() for i in starts)
    return [run for run in runs if not zlib.crc32(run) % 4]


def main() -> int:
    """Print the shares, for each part and domain."""
    for part in PARTS:
        seen: set[int] = set()
        looked_at: Counter[str] = Counter()
        repeated: Counter[str] = Counter()
        for shard in sorted((home() / part).glob("*.jsonl.zst")):
            with zstandard.open(shard, "rt", encoding="utf-8", newline="\n") as lines:
                for document in map(json.loads, lines):
                    domain = document["meta"]["redpajama_set_name"]
                    runs = [hash(run) for run in runs_of(document["text"])]
                    looked_at[domain] += len(runs)
                    repeated[domain] += sum(run in seen for run in runs)
                    seen.update(runs)
        shares = ", ".join(f"{d} {repeated[d] / looked_at[d]:.1%}" for d in looked_at)
        total = repeated.total() / max(1, looked_at.total())
        print(f"{part}: {total:.1%} of {looked_at.total():,} runs of {WORDS} words ({shares})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
