# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write the measured tables of pages from what tests recorded under build/.

    make engine && python -m docs.tools.recorded_tables engine      docs/engine.md
    make foundry && python -m docs.tools.recorded_tables foundry    docs/guides/llm-foundry.md
    make pipeline && python -m docs.tools.recorded_tables pipelines     docs/cluster-tests.md
    make faults && python -m docs.tools.recorded_tables faults      docs/guides/supervision.md
    make models     docs/models.md; it calls this program itself

The newest row of each name counts. A table without new rows stays as it is; of the pipelines, what
was recorded before is kept in docs/figures/pipelines.json. Of faults every result counts, also of a
seed that was run before, and is kept too: take a suite's lines out of
docs/figures/fault-results.jsonl after a change that its results depend on. The newest results of
each model type are kept in docs/figures/models.json.
"""

import json
import re
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from docs.tools.page_parts import ROOT, put, table

ENGINE = {
    "parity": ("layout", "processes", "largest difference"),
    "faults": ("fault", "largest difference"),
    "planted": ("planted bug", "axis", "reshard drill", "losses", "gradient norms"),
    "kills": ("training run", "bitwise identical"),
    "reshard": ("saved", "continued", "largest difference"),
    "exports": ("model", "saved at", "largest logit difference"),
    "parameters": (
        "model",
        "layout",
        "parameters per rank in the first, a middle and the last stage",
    ),
    "times": ("command", "measured", "limit"),
    "anomalies": ("injected fault", "finding", "steps until reported", "limit"),
    "healthy": ("run", "steps", "false alarms"),
    "overhead": ("comparison", "median ratio", "95 % interval"),
}
FOUNDRY = {
    "parity": ("recipe and layout", "largest loss difference", "largest gradient-norm difference"),
    "kills": ("killed during", "cases", "bitwise identical"),
    "reshard": ("saved", "continued", "largest difference"),
    "rehearsal": ("recipe", "drill", "result"),
    "mds": ("data", "identical to the output of LLM Foundry's own converter"),
    "exports": ("model", "saved", "class", "largest logit difference"),
}
TWO_NAMES = ("reshard", "rehearsal", "exports")
"""Tables whose rows are named by two cells."""
KILLS = {
    "llm-foundry kills": "training on 2 ranks, then resumed",
    "mds kills": "the conversion of tokens to MDS samples",
}
"""The fault suites of LLM Foundry, and what they kill."""
PIPELINES = ROOT / "docs/figures/pipelines.json"
FAULTS = ROOT / "build/fault-results.jsonl"
MODELS = ROOT / "docs/figures/models.json"
CELLS = ("plan", "rehearse", "resume", "reshard", "import", "export")
"""What a model type is proven to do, in the order of the columns."""
KEPT_FAULTS = ROOT / "docs/figures/fault-results.jsonl"
Rows = dict[str, dict[str, list[str]]]
Case = dict[str, Any]
Row = Sequence[str]


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
        for entry in keep_faults()
        if entry["suite"] in KILLS
    }
    body: dict[str, list[str]] = {}
    for suite, sharding in dict.fromkeys((suite, sharding) for suite, sharding, _ in cases):
        came = [right for key, right in cases.items() if key[:2] == (suite, sharding)]
        name = f"{KILLS[suite]}, sharding {sharding}" if sharding else KILLS[suite]
        body[name] = [name, str(len(came)), str(sum(came))]
    return {"kills": body} if body else {}


def pipelines_table() -> str:
    """A column for each pipeline; keeps what was recorded."""
    pipelines: dict[str, dict[str, Any]] = json.loads(PIPELINES.read_text())
    pipelines |= {pipeline.pop("title"): pipeline for pipeline in recorded("pipelines.jsonl")}
    pipelines = dict(sorted(pipelines.items()))
    PIPELINES.write_text(json.dumps(pipelines, indent=2) + "\n")
    every = pipelines.values()
    whole = [sum(one["seconds"].values()) for one in every]
    rows = [["total", *(f"{seconds:,.0f} s" for seconds in whole)]]
    for step in next(iter(every))["seconds"]:
        taken = [one["seconds"][step] for one in every]
        rows.append([step, *(f"{s:.0f} s, {s / w:.0%}" for s, w in zip(taken, whole, strict=True))])
    resumed = [", ".join(map(str, one["resumed"])) or "not killed" for one in every]
    rows += [
        ["resumed at step", *resumed],
        ["largest logit difference", *(f"{one['logits']:.0e}" for one in every)],
        ["machine load at the end", *(f"{one['load']:.0f}" for one in every)],
    ]
    return table(("", *pipelines), rows)


def models_table() -> str:
    """A row for each model type; keeps what was recorded."""
    types: dict[str, dict[str, Any]] = json.loads(MODELS.read_text())
    for line in recorded("model-cells.jsonl"):
        result = {name: line[name] for name in ("ok", "said")}
        types.setdefault(line["model_type"], {})[line["cell"]] = result
    MODELS.write_text(json.dumps(dict(sorted(types.items())), indent=1, ensure_ascii=False) + "\n")
    rows = [
        [f"`{name}`", *(_cell(cells.get(cell)) for cell in CELLS)]
        for name, cells in sorted(types.items())
    ]
    matrix = table(("model type", *CELLS), rows)
    print(matrix)
    return matrix


def _cell(result: dict[str, Any] | None) -> str:
    """A mark, or the reason; a comparison shows the largest difference."""
    if result is None:
        return "not run"
    found = re.findall(r"\d\.?\d*e[-+]\d+", result["said"])
    if not result["ok"]:
        return f"failed: {result['said']}"
    return max(found, key=float) if found else "✓"


def right(cases: Sequence[Case]) -> str:
    return f"{sum(bool(case['right']) for case in cases)} of {len(cases)}"


def _grouped(cases: Sequence[Case], *names: str) -> dict[tuple[Any, ...], list[Case]]:
    groups: dict[tuple[Any, ...], list[Case]] = {}
    for case in cases:
        groups.setdefault(tuple(case[name] for name in names), []).append(case)
    return dict(sorted(groups.items()))


def kills(cases: Sequence[Case]) -> list[Row]:
    groups = _grouped(cases, "target", "moment").items()
    rows = [_kill_row(target, moment, some) for (target, moment), some in groups]
    return [*rows, _kill_row("all", "", list(cases))]


def _kill_row(target: str, moment: str, cases: list[Case]) -> Row:
    steps = sum(len(case["differing"]) for case in cases)
    orphans = [case["orphans_seconds"] for case in cases if case["target"] != "rank"]
    return (
        *(target, moment, right(cases), str(steps)),
        str(max(case["lost"] for case in cases)),
        f"{max(orphans):.2f} s" if orphans else "",
        f"{statistics.median(case['recovery_seconds'] for case in cases):.1f} s",
    )


def stops(cases: Sequence[Case]) -> list[Row]:
    return [
        (
            *(moment, right(some), f"{max(case['seconds'] for case in some):.1f} s"),
            f"{min(case['bound'] for case in some):.1f} s",
        )
        for (moment,), some in _grouped(cases, "moment").items()
    ]


def disks(cases: Sequence[Case]) -> list[Row]:
    rows: list[Row] = []
    for (kind,), some in _grouped(cases, "kind").items():
        codes = sorted({case["code"] for case in some})
        damaged = sum(bool(case["damaged"]) for case in some)
        rows.append((kind, right(some), ", ".join(map(str, codes)), str(damaged)))
    return rows


def corruptions(cases: Sequence[Case]) -> list[Row]:
    kinds = sorted({kind.replace("_", " ") for case in cases for kind in case["kinds"]})
    silent = sum(case["silent"] for case in cases)
    return [(f"{sum(case['cases'] for case in cases):,}", str(silent), ", ".join(kinds))]


def starts(cases: Sequence[Case]) -> list[Row]:
    """Real starts on damaged checkpoints, by what was done to them."""
    groups = _grouped(cases, "what").items()
    return [(what.replace("_", " "), right(some)) for (what,), some in groups]


def late_commits(cases: Sequence[Case]) -> list[Row]:
    return [tuple(str(sum(case[name] for case in cases)) for name in ("cases", "refused"))]


def calm(cases: Sequence[Case]) -> list[Row]:
    """The longest training that nothing was wrong with."""
    case = max(cases, key=lambda case: float(case["minutes"]))
    saves = f"{case['saves']}; every second save takes {case['ratio']:.0f} × as long"
    return [(f"{case['minutes']:g} min", str(case["steps"]), saves, str(case["alarms"]))]


def goodput(cases: Sequence[Case]) -> list[Row]:
    def total(name: str) -> float:
        return sum(float(case[name]) for case in cases)

    def median(name: str) -> float:
        return statistics.median(float(case[name]) for case in cases)

    wall, training, ideal = map(total, ("wall_seconds", "training_seconds", "ideal_seconds"))
    return [
        (
            *(f"{total('faults'):.0f}", f"{wall / 60:.0f} min"),
            *(f"{median('save_seconds'):.2f} s", f"{median('restart_seconds'):.1f} s"),
            *(f"{100 * training / wall:.1f} %", f"{100 * ideal / wall:.1f} %"),
            f"{100 * training / ideal:.1f} %",
        )
    ]


FAULT_TABLES: dict[str, tuple[Row, Callable[[Sequence[Case]], list[Row]]]] = {
    "kills": (
        (
            *("killed", "during", "correct", "differing steps", "steps lost (max)"),
            *("time until processes exited (max)", "time until training resumed (median)"),
        ),
        kills,
    ),
    "stops": (("stopped during", "detected in time", "detection time (max)", "limit"), stops),
    "disks": (
        ("disk", "correct", "exit codes", "cases with a damaged checkpoint"),
        disks,
    ),
    "corruptions": (("corruptions", "silent", "kinds"), corruptions),
    "starts": (("damage", "resumed bitwise identically from the newest intact checkpoint"), starts),
    "late-commits": (("late commits", "refused"), late_commits),
    "calm": (("length", "steps", "saves", "false alarms"), calm),
    "goodput": (
        (
            *("faults", "time", "one save", "one cold start"),
            *("goodput", "Young/Daly", "share of the ideal"),
        ),
        goodput,
    ),
}


def keep_faults(results: Path = FAULTS, kept: Path = KEPT_FAULTS) -> list[Case]:
    """Return every result so far in order, and add the new ones to what the repository keeps."""
    there, new = (p.read_text().splitlines() if p.exists() else [] for p in (kept, results))
    lines = list(dict.fromkeys([*there, *new]))
    if len(lines) > len(there):
        kept.write_text("".join(f"{line}\n" for line in lines))
    return [json.loads(line) for line in lines]


def fault_tables() -> dict[str, str]:
    """The tables of the suites that have results."""
    suites = {suite: cases for (suite,), cases in _grouped(keep_faults(), "suite").items()}
    return {
        suite: table(head, rows(suites[suite]))
        for suite, (head, rows) in FAULT_TABLES.items()
        if suite in suites
    }


def main() -> None:
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    parts: dict[str, str]
    if what == "pipelines":
        page, parts = "cluster-tests.md", {"pipelines": pipelines_table()}
    elif what == "faults":
        page, parts = "guides/supervision.md", fault_tables()
    elif what == "models":
        page, parts = "models.md", {"models": models_table()}
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
