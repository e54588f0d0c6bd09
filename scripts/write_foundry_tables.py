# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write the measured tables of docs/guides/llm-foundry.md from what its tests recorded.

    make foundry && python -m scripts.write_foundry_tables

Reads build/foundry-figures.jsonl, and the kills among what the fault suites recorded in pieces.
Each table stands between two comments that name it. A table without rows stays as it is.
"""

import json
import re
from pathlib import Path
from typing import Any

from scripts.fault_results import keep
from scripts.write_engine_tables import table

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "build/foundry-figures.jsonl"
PAGE = ROOT / "docs/guides/llm-foundry.md"
HEADS = {
    "parity": ("recipe and layout", "largest difference of a loss", "of a gradient norm"),
    "kills": ("killed", "cases", "equal bit for bit"),
    "reshard": ("saved", "continued", "largest difference"),
    "rehearsal": ("recipe", "drill", "what the rehearsal says"),
    "mds": ("data", "equal to LLM Foundry's own converter"),
    "exports": ("model", "saved", "class", "largest difference of a logit"),
}
KILLS = {
    "llm-foundry kills": "a training of 2 ranks, and resumed",
    "mds kills": "the cutting of tokens into samples",
}
"""The suites of kills, and what was killed."""
TWO_NAMES = ("reshard", "rehearsal", "exports")
"""Tables whose rows are about what stands in two cells."""

Rows = dict[str, dict[str, list[str]]]


def lines(path: Path) -> list[dict[str, Any]]:
    """The entries of a file; none where it is not there."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def figures() -> Rows:
    """The newest row of each name, by table."""
    found: Rows = {}
    for entry in lines(FIGURES):
        cells = entry["row"]
        about = " ".join(cells[:2]) if entry["table"] in TWO_NAMES else cells[0]
        found.setdefault(entry["table"], {})[about] = cells
    return found


def kills() -> Rows:
    """How many kills there were, and after how many all was the same; the newest of each case."""
    newest = {
        (entry["suite"], entry.get("sharding", ""), entry["seed"]): entry["right"]
        for entry in keep()
        if entry["suite"] in KILLS
    }
    body: dict[str, list[str]] = {}
    for suite, sharding in dict.fromkeys((suite, sharding) for suite, sharding, _ in newest):
        came = [right for key, right in newest.items() if key[:2] == (suite, sharding)]
        about = f"{KILLS[suite]}, sharding {sharding}" if sharding else KILLS[suite]
        body[about] = [about, str(len(came)), str(sum(came))]
    return {"kills": body} if body else {}


def main() -> None:
    """Replace each table that has rows."""
    page = PAGE.read_text()
    for name, body in (figures() | kills()).items():
        text = f"<!-- {name} -->\n{table(HEADS[name], list(body.values()))}\n<!-- end -->"
        between = re.compile(rf"<!-- {name} -->\n.*?<!-- end -->", re.DOTALL)
        page = between.sub(lambda _, text=text: text, page)  # type: ignore[misc]
        print(f"{name}: {len(body)} rows")
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
