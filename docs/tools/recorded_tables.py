# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write the measured tables of pages from what tests recorded under build/.

    make engine && python -m docs.tools.recorded_tables engine      docs/engine.md
    make foundry && python -m docs.tools.recorded_tables foundry    docs/guides/llm-foundry.md
    make voyage && python -m docs.tools.recorded_tables voyages     docs/cluster-tests.md

The newest row of each name counts. A table without new rows stays as it is; of the voyages, what
was recorded before is kept in docs/figures/voyages.json.
"""

import json
import sys
from pathlib import Path
from typing import Any

from docs.tools.fault_tables import keep
from docs.tools.page_parts import ROOT, put, table

ENGINE = {
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
FOUNDRY = {
    "parity": ("recipe and layout", "largest difference of a loss", "of a gradient norm"),
    "kills": ("killed", "cases", "equal bit for bit"),
    "reshard": ("saved", "continued", "largest difference"),
    "rehearsal": ("recipe", "drill", "what the rehearsal says"),
    "mds": ("data", "equal to LLM Foundry's own converter"),
    "exports": ("model", "saved", "class", "largest difference of a logit"),
}
TWO_NAMES = ("reshard", "rehearsal", "exports")
"""Tables whose rows are named by two cells."""
KILLS = {
    "llm-foundry kills": "a training of 2 ranks, and resumed",
    "mds kills": "the cutting of tokens into samples",
}
"""The fault suites of LLM Foundry, and what they kill."""
VOYAGES = ROOT / "docs/figures/voyages.json"
Rows = dict[str, dict[str, list[str]]]


def recorded(file: str) -> list[dict[str, Any]]:
    path = ROOT / "build" / file
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def newest(file: str) -> Rows:
    """The newest row of each name, by table, in the order in which they were first measured."""
    found: Rows = {}
    for entry in recorded(file):
        cells = entry["row"]
        name = " ".join(cells[: 2 if entry["table"] in TWO_NAMES else 1])
        found.setdefault(entry["table"], {})[name] = cells
    return found


def foundry_kills() -> Rows:
    """How many kills there were, and after how many all was the same; the newest of each case."""
    cases = {
        (entry["suite"], entry.get("sharding", ""), entry["seed"]): entry["right"]
        for entry in keep()
        if entry["suite"] in KILLS
    }
    body: dict[str, list[str]] = {}
    for suite, sharding in dict.fromkeys((suite, sharding) for suite, sharding, _ in cases):
        came = [right for key, right in cases.items() if key[:2] == (suite, sharding)]
        name = f"{KILLS[suite]}, sharding {sharding}" if sharding else KILLS[suite]
        body[name] = [name, str(len(came)), str(sum(came))]
    return {"kills": body} if body else {}


def voyages_table() -> str:
    """A column for each voyage; keeps what was recorded."""
    voyages: dict[str, dict[str, Any]] = json.loads(VOYAGES.read_text())
    voyages |= {voyage.pop("title"): voyage for voyage in recorded("voyages.jsonl")}
    voyages = dict(sorted(voyages.items()))
    VOYAGES.write_text(json.dumps(voyages, indent=2) + "\n")
    every = voyages.values()
    whole = [sum(one["seconds"].values()) for one in every]
    rows = [["the whole way", *(f"{seconds:,.0f} s" for seconds in whole)]]
    for step in next(iter(every))["seconds"]:
        taken = [one["seconds"][step] for one in every]
        rows.append([step, *(f"{s:.0f} s, {s / w:.0%}" for s, w in zip(taken, whole, strict=True))])
    resumed = [", ".join(map(str, one["resumed"])) or "not killed" for one in every]
    rows += [
        ["resumed at step", *resumed],
        ["largest difference of a logit", *(f"{one['logits']:.0e}" for one in every)],
        ["load of the machine at the end", *(f"{one['load']:.0f}" for one in every)],
    ]
    return table(("", *voyages), rows)


def main() -> None:
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    parts: dict[str, str]
    if what == "voyages":
        page, parts = "cluster-tests.md", {"voyages": voyages_table()}
    elif what in ("engine", "foundry"):
        page, heads = (
            ("engine.md", ENGINE) if what == "engine" else ("guides/llm-foundry.md", FOUNDRY)
        )
        rows = newest(f"{what}-figures.jsonl") | (foundry_kills() if what == "foundry" else {})
        parts = {name: table(heads[name], body.values()) for name, body in rows.items()}
    else:
        sys.exit(__doc__)
    put(Path(ROOT / "docs" / page), parts)


if __name__ == "__main__":
    main()
