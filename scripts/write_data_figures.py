# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write what `make bench` measured into docs/data-performance.md.

python -m scripts.write_data_figures
"""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.bench.figures import STAGES, Best, Figure, caveat, table
from scripts.project_data_cost import projection

ROOT = Path(__file__).parents[1]


def figures_text(result: Mapping[str, Any]) -> str:
    """The machine and the table of figures."""
    machine = result["machine"]
    packages = ", ".join(f"{name} {text}" for name, text in machine["packages"].items())
    kept = [{k: v for k, v in row.items() if k != "met"} for row in result["figures"]]
    lines = table([Figure(**row) for row in kept])
    rounds = max(len(runs) for runs in result["runs"].values())
    head = f"{machine['cores']} cores of {machine['cpu']}, Python {machine['python']}, {packages}."
    load = f"Best of {rounds}; other programs kept {machine['cores_of_others']:.2f} cores busy."
    note = caveat(result)
    return f"{head} {load}{f'\n\n**{note}**' if note else ''}\n\n```text\n{lines}\n```"


def stages_text(result: Mapping[str, Any]) -> str:
    """Where the time of the tasks goes."""
    best = Best(result["runs"])
    found = best.stages("english")
    rows = ["| stage | CPU-s | share |", "|---|---|---|"]
    for stage in STAGES[:-1]:
        rows.append(f"| {stage} | {found[stage]:.2f} | {found[stage] / found['all']:.0%} |")
    return "\n".join(rows)


def replaced(page: str, name: str, text: str) -> str:
    """The page with another text between the marks of that name."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    pattern = re.escape(begin) + ".*?" + re.escape(end)
    return re.sub(pattern, lambda _: f"{begin}\n{text}\n{end}", page, flags=re.DOTALL)


def main() -> int:
    """Write the page."""
    result = json.loads((ROOT / "build/bench-data.json").read_text(encoding="utf-8"))
    if result["short"]:
        raise SystemExit("write_data_figures: the last run was a short one. Run: make bench")
    file = ROOT / "docs/data-performance.md"
    page = file.read_text(encoding="utf-8")
    page = replaced(page, "figures", figures_text(result))
    page = replaced(page, "stages", stages_text(result))
    page = replaced(page, "projection", projection(result))
    file.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
