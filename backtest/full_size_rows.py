# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Count the last rank of Megatron-LM's functional tests, and compare with the measured memory.

`count` runs the engine for each distinct case, 10 to 20 CPU seconds each, and adds a line to the
record; it can be stopped and continued. `score` compares the record with what was measured. The
tests are split in halves by their names. Kernels may be corrected with the fitting half; the other
half is scored once.

    python -m backtest.full_size_rows count --checkout MEGATRON_LM [--held-out] [--limit N]
    python -m backtest.full_size_rows score [--held-out]
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from backtest import memory_backtest, memory_ci
from backtest.ci_tests import (
    CountedCase,
    case_of,
    ci_rows,
    is_held_out,
    read_test,
    why_not_counted,
    workspaces,
)
from backtest.memory_rows import GIB, Row
from backtest.rows import DATA

RECORD = DATA / "full_size_counts.jsonl"
LARGE = 5 * GIB
MOST = 0.9
DETERMINISTIC = "NVTE_ALLOW_NONDETERMINISTIC_ALGO"
"""Transformer Engine's variable; the stand-ins read it too."""

Record = dict[str, Any]
"""A line of the record: `key`, `test`, `gpus`, `attention`, `is_complete`, `rows` with their
workspaces, and `peak` or `error`."""


@dataclass(frozen=True, slots=True)
class ScoredRow:
    row: str
    test: str
    gpu: str
    measured: float
    counted: float
    """What the engine allocated, with cuBLAS's workspaces."""
    is_complete: bool
    """False if an argument of the test is left out."""
    formula: float | None
    """The ratio of the formula's prediction to the measurement, if it has one."""

    @property
    def has_experts(self) -> bool:
        return bool(memory_ci.flags()[self.test]["num-experts"])

    @property
    def remainder(self) -> float:
        return self.measured - self.counted


# --- counting


Cases = dict[str, tuple[CountedCase, dict[str, int]]]
"""Counts by key, each with the rows that it is compared with and their cuBLAS workspaces."""


def distinct_cases(checkout: Path, *, held_out: bool) -> Cases:
    """The counts of one half."""
    cases: Cases = {}
    for row in ci_rows():
        if why_not_counted(row) or is_held_out(row["model"]) is not held_out:
            continue
        test = read_test(checkout, row["model"])
        if test is not None:
            case = case_of(row, test)
            added = workspaces(row["gpu"], case.attention, case.workspace, case.without)
            cases.setdefault(case.key, (case, {}))[1][row["id"]] = added
    return cases


def count_all(
    cases: Cases,
    record: Path,
    count: Callable[[CountedCase], Mapping[str, Any]],
    limit: int | None = None,
) -> int:
    """Count what the record does not have, and return how many counts were added."""
    known = {line["key"] for line in read_record(record)}
    missing = [entry for key, entry in cases.items() if key not in known][:limit]
    for case, rows in missing:
        found = count(case)
        line = {
            "key": case.key,
            "test": case.test,
            "gpus": case.gpus,
            "attention": case.attention,
            # Grouped experts are counted one after the other, and fused permutations unfused.
            "is_complete": set(case.without) <= {"moe-grouped-gemm", "moe-permute-fusion"},
        }
        with record.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**line, "rows": rows, **found}) + "\n")
        print(f"{case.test}, {case.gpus} GPUs, {case.attention}: {_outcome(found)}", flush=True)
    return len(missing)


def _outcome(found: Mapping[str, Any]) -> str:
    return str(found["error"]) if "error" in found else "counted"


def read_record(path: Path = RECORD) -> list[Record]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# --- scoring


def scored_rows(record: Iterable[Record], *, held_out: bool) -> list[ScoredRow]:
    """The counted rows of one half."""
    rows = {row["id"]: row for row in ci_rows()}
    formula = formula_ratios()
    return [
        _scored(rows[identifier], line, formula.get(identifier))
        for line in record
        if "peak" in line and is_held_out(line["test"]) is held_out
        for identifier in line["rows"]
    ]


def _scored(row: Row, line: Record, formula: float | None) -> ScoredRow:
    measured = float(row["measured_mem_gb"]) * GIB
    counted = float(line["peak"] + line["rows"][row["id"]])
    return ScoredRow(
        row["id"], row["model"], row["gpu"], measured, counted, line["is_complete"], formula
    )


def formula_ratios() -> dict[str, float]:
    """Ratio of the formula's prediction to the measurement by row; model sizes are held out."""
    narrow = memory_backtest.never_fitted(memory_ci.eight_bit_rows())
    scored = (*memory_backtest.megatron_ci(), *memory_backtest.megatron_ci_experts(), *narrow)
    return {one.row.id: one.ratio for one in scored}


def remainders(rows: Sequence[ScoredRow]) -> dict[str, tuple[float, float, float]]:
    """What is measured beyond the count on each GPU: median, and the span of nine of ten rows."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        found[row.gpu].append(row.remainder)
    spans = {}
    for gpu, values in found.items():
        ordered = sorted(values)
        edge = int(len(ordered) * (1 - MOST) / 2)
        spans[gpu] = (median(ordered), ordered[edge], ordered[-1 - edge])
    return spans


def errors(rows: Iterable[ScoredRow], added: Mapping[str, float]) -> list[float]:
    """Relative errors of counts with the remainder of each GPU added."""
    return [abs((row.counted + added.get(row.gpu, 0.0)) / row.measured - 1) for row in rows]


def quantiles(values: Sequence[float]) -> str:
    """Median and nine of ten, in percent."""
    if not values:
        return "none"
    ordered = sorted(values)
    most = ordered[min(len(ordered) - 1, int(MOST * len(ordered)))]
    return f"median {median(ordered):.1%}, nine of ten below {most:.1%} ({len(ordered)} rows)"


def report(rows: Sequence[ScoredRow], added: Mapping[str, float]) -> list[str]:
    """Errors of counts, and of the formula on the same rows."""
    known = [row for row in rows if row.formula is not None]
    parts: list[tuple[str, Sequence[ScoredRow]]] = [
        ("all", rows),
        ("at most 5 GiB", [row for row in rows if row.measured <= LARGE]),
        ("above 5 GiB", [row for row in rows if row.measured > LARGE]),
        ("without experts", [row for row in rows if not row.has_experts]),
        ("counted with all options", [row for row in rows if row.is_complete]),
        ("rows that the formula predicts", known),
    ]
    lines = [f"{title}: {quantiles(errors(chosen, added))}" for title, chosen in parts]
    formula = [abs(row.formula - 1) for row in known if row.formula is not None]
    return [*lines, f"the formula on these: {quantiles(formula)}"]


def print_scores(record: Sequence[Record], *, held_out: bool) -> None:
    fitting = scored_rows(record, held_out=False)
    spans = remainders(fitting)
    added = {gpu: span[0] for gpu, span in spans.items()}
    for gpu, (middle, low, high) in sorted(spans.items()):
        text = " to ".join(f"{value / 2**20:.0f}" for value in (low, high))
        print(f"remainder on {gpu}: {middle / 2**20:.0f} MiB, nine of ten {text} MiB")
    print("\n".join(f"fitting half, {line}" for line in report(fitting, added)))
    if held_out:
        rows = scored_rows(record, held_out=True)
        print("\n".join(f"held-out half, {line}" for line in report(rows, added)))
    refused = Counter(line["error"] for line in record if "error" in line)
    for reason, count in refused.most_common():
        print(f"not counted, {count}: {reason}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("action", choices=("count", "score"))
    parser.add_argument("--checkout", type=Path, help="a checkout of Megatron-LM at d98e8a6")
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--record", type=Path, default=RECORD)
    given = parser.parse_args(argv)
    if given.action == "score":
        print_scores(read_record(given.record), held_out=given.held_out)
        return 0
    if given.checkout is None:
        parser.error(
            "count needs --checkout: the arguments of the tests are not in this repository"
        )
    cases = distinct_cases(given.checkout, held_out=given.held_out)
    count_all(cases, given.record, Counting(), given.limit)
    return 0


class Counting:
    """A process in the worker's environment that counts one case after the other."""

    def __init__(self) -> None:
        python = os.environ.get("SEATRIAL_WORKER_PYTHON", sys.executable)
        self._process = subprocess.Popen(
            [python, "-W", "ignore", "-m", "backtest.count_batch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, case: CountedCase) -> Mapping[str, Any]:
        environment = {"WORLD_SIZE": str(case.gpus), "RANK": str(case.gpus - 1)}
        if case.is_deterministic:
            environment[DETERMINISTIC] = "0"
        with TemporaryDirectory() as directory:
            record = Path(directory) / "rank.json"
            job = {
                "arguments": case.arguments,
                "attention": case.attention,
                "options": case.options,
                "environment": environment,
                "record": str(record),
            }
            answer = json.loads(self._ask(json.dumps(job)))
            if answer["reason"] or not record.exists():
                return {"error": answer["reason"][:300]}
            counted = json.loads(record.read_text(encoding="utf-8"))
        return _counted(counted)

    def _ask(self, line: str) -> str:
        jobs, answers = self._process.stdin, self._process.stdout
        if jobs is None or answers is None:
            raise ValueError("the process has no pipes")
        jobs.write(line + "\n")
        jobs.flush()
        return answers.readline()


def _counted(record: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        "peak": sum(record["at_peak"].values()),
        "at_peak": record["at_peak"],
        "update_peak": record["update_peak"],
        "largest": [[each["what"], each["size"], each["count"]] for each in record["largest"][:8]],
    }


if __name__ == "__main__":
    sys.exit(main())
