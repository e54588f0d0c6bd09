# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write the table of voyages in docs/cluster-tests.md from what `make voyage` recorded.

    make voyage && python -m scripts.write_voyage_table

Reads build/voyages.jsonl; the newest voyage of each kind counts. Kinds that it lacks stay as they
are, from docs/figures/voyages.json, which is written anew.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

from scripts.write_engine_tables import table

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "build/voyages.jsonl"
KEPT = ROOT / "docs/figures/voyages.json"
PAGE = ROOT / "docs/cluster-tests.md"
BETWEEN = re.compile(r"<!-- voyages -->\n.*?<!-- end -->", re.DOTALL)

Voyages = dict[str, dict[str, Any]]
"""What was recorded of each kind, by its title."""


def newest() -> Voyages:
    """What is kept, and in its place what was recorded since."""
    found: Voyages = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    for line in lines:
        voyage = json.loads(line)
        found[voyage.pop("title")] = voyage
    return dict(sorted(found.items()))


def voyages_table(voyages: Voyages) -> str:
    """A column for each voyage."""
    every = voyages.values()
    whole = [sum(one["seconds"].values()) for one in every]
    rows = [["the whole way", *(f"{seconds:,.0f} s" for seconds in whole)]]
    for step in next(iter(every))["seconds"]:
        taken = [one["seconds"][step] for one in every]
        rows.append([step, *(f"{s:.0f} s, {s / w:.0%}" for s, w in zip(taken, whole, strict=True))])
    rows += [
        [
            "resumed at step",
            *(", ".join(map(str, one["resumed"])) or "not killed" for one in every),
        ],
        ["largest difference of a logit", *(f"{one['logits']:.0e}" for one in every)],
        ["load of the machine at the end", *(f"{one['load']:.0f}" for one in every)],
    ]
    return table(("", *voyages), rows)


def main() -> None:
    """Keep what was recorded, and replace the table."""
    voyages = newest()
    if not voyages:
        sys.exit("Nothing was recorded yet: make voyage.")
    KEPT.write_text(json.dumps(voyages, indent=2) + "\n")
    text = f"<!-- voyages -->\n{voyages_table(voyages)}\n<!-- end -->"
    PAGE.write_text(BETWEEN.sub(lambda _: text, PAGE.read_text()))
    print(f"{len(voyages)} voyages: {', '.join(voyages)}")


if __name__ == "__main__":
    main()
