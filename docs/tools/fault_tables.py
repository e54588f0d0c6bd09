# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Write the tables of docs/guides/supervision.md from what the fault suite recorded.

    make faults && python -m docs.tools.fault_tables

Every result counts, also of a seed that was run before, and is kept beside the page: take a suite's
lines out of docs/figures/fault-results.jsonl after a change that its results depend on. A table
without results stays as it is.
"""

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from docs.tools.page_parts import ROOT, put, table

RESULTS = ROOT / "build/fault-results.jsonl"
KEPT = ROOT / "docs/figures/fault-results.jsonl"
PAGE = ROOT / "docs/guides/supervision.md"

Case = dict[str, Any]
Row = Sequence[str]


def by_suite(cases: Iterable[Case]) -> dict[str, list[Case]]:
    found: dict[str, list[Case]] = {}
    for case in cases:
        found.setdefault(case["suite"], []).append(case)
    return found


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
    saves = f"{case['saves']}, every second {case['ratio']:.0f} × as long"
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


TABLES: dict[str, tuple[Row, Callable[[Sequence[Case]], list[Row]]]] = {
    "kills": (
        (
            *("killed", "during", "as it must be", "differing steps", "steps lost, at most"),
            *("processes gone, at most", "training again, median"),
        ),
        kills,
    ),
    "stops": (("stopped during", "noticed in time", "after, at most", "bar"), stops),
    "disks": (
        ("disk", "as it must be", "exit codes", "cases with a damaged checkpoint"),
        disks,
    ),
    "corruptions": (("corruptions", "silent", "kinds"), corruptions),
    "starts": (("damage", "went on from the newest good checkpoint, bit by bit"), starts),
    "late-commits": (("late commits", "refused"), late_commits),
    "calm": (("length", "steps", "saves", "false alarms"), calm),
    "goodput": (
        (
            *("faults", "time", "one save", "one cold start"),
            *("goodput", "Young/Daly", "of the ideal"),
        ),
        goodput,
    ),
}


def keep(results: Path = RESULTS, kept: Path = KEPT) -> list[Case]:
    """Return every result so far in order, and add the new ones to what the repository keeps."""
    there, new = (p.read_text().splitlines() if p.exists() else [] for p in (kept, results))
    lines = list(dict.fromkeys([*there, *new]))
    if len(lines) > len(there):
        kept.write_text("".join(f"{line}\n" for line in lines))
    return [json.loads(line) for line in lines]


def main() -> None:
    suites = {suite: cases for suite, cases in by_suite(keep()).items() if suite in TABLES}
    put(
        PAGE,
        {
            suite: table(TABLES[suite][0], TABLES[suite][1](cases))
            for suite, cases in suites.items()
        },
    )


if __name__ == "__main__":
    main()
