# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What the fault suites recorded, kept beside the tables so that another checkout goes on.

A suite appends to build/fault-results.jsonl, which no commit holds. Who writes the tables keeps its
lines in docs/figures/fault-results.jsonl, after those that are there.
"""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "build/fault-results.jsonl"
KEPT = ROOT / "docs/figures/fault-results.jsonl"


def keep(results: Path = RESULTS, kept: Path = KEPT) -> list[dict[str, Any]]:
    """Every result so far, in the order in which they came; the new ones are kept."""
    there = _lines(kept)
    lines = list(dict.fromkeys([*there, *_lines(results)]))
    if len(lines) > len(there):
        kept.write_text("".join(f"{line}\n" for line in lines))
    return [json.loads(line) for line in lines]


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
