# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write the measured tables of docs/guides/llm-foundry.md from what its tests recorded.

    make foundry && python -m scripts.write_foundry_tables

Each table stands between two comments that name it. A table without new rows stays as it is.
"""

import json
import re
from pathlib import Path

from scripts.write_engine_tables import table

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "build/foundry-figures.jsonl"
PAGE = ROOT / "docs/guides/llm-foundry.md"
HEADS = {
    "parity": ("recipe and layout", "largest difference from one rank, 20 steps"),
    "kills": ("training", "killed, resumed, equal bit for bit"),
    "reshard": ("saved", "continued", "largest difference"),
    "mds": ("data", "equal to LLM Foundry's own converter"),
}


def main() -> None:
    """Replace each table that has rows."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in FIGURES.read_text().splitlines():
        entry = json.loads(line)
        found.setdefault(entry["table"], {})[" ".join(entry["row"][:-1])] = entry["row"]
    page = PAGE.read_text()
    for name, body in found.items():
        text = f"<!-- {name} -->\n{table(HEADS[name], list(body.values()))}\n<!-- end -->"
        between = re.compile(rf"<!-- {name} -->\n.*?<!-- end -->", re.DOTALL)
        page = between.sub(text.replace("\\", r"\\"), page)
        print(f"{name}: {len(body)} rows")
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
