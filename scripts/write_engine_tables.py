# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write the measured tables of docs/engine.md from what the engine tests recorded.

    make engine && python -m scripts.write_engine_tables

Each table stands between two comments that name it. A table without new rows stays as it is.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "build/engine-figures.jsonl"
PAGE = ROOT / "docs/engine.md"
HEADS = {
    "parity": ("layout", "processes", "largest difference"),
    "faults": ("fault", "largest difference"),
    "kills": ("training", "equal bit for bit"),
    "reshard": ("saved", "continued", "largest difference"),
    "exports": ("model", "saved at", "largest difference of a logit"),
    "parameters": (
        "model",
        "layout",
        "parameters on a rank of the first, a middle, the last stage",
    ),
    "times": ("what", "measured", "bar"),
    "anomalies": ("trouble", "finding", "named in its step number", "bar"),
    "healthy": ("what", "steps", "false alarms"),
    "overhead": ("comparison", "median ratio", "95 % interval"),
}


def rows() -> dict[str, dict[str, list[str]]]:
    """The newest row of each name, by table, in the order in which they were first measured."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in FIGURES.read_text().splitlines():
        entry = json.loads(line)
        cells = entry["row"]
        # What the row is about is everything but what was measured.
        about = " ".join(cells[:2]) if entry["table"] in ("reshard", "exports") else cells[0]
        found.setdefault(entry["table"], {})[about] = cells
    return found


def table(head: tuple[str, ...], body: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main() -> int:
    """Replace each table that has rows."""
    page, missing = PAGE.read_text(), 0
    for name, body in rows().items():
        between = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        found = between.search(page)
        if not found:
            print(f"docs/engine.md has no place for the table {name}", file=sys.stderr)
            missing += 1
            continue
        text = found[1] + table(HEADS[name], list(body.values())) + "\n" + found[2]
        page = page[: found.start()] + text + page[found.end() :]
        print(f"{name}: {len(body)} rows")
    PAGE.write_text(page)
    return missing


if __name__ == "__main__":
    sys.exit(main())
