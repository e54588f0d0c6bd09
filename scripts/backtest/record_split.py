# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Record which published rows may be fitted and which are scored, before anything is fitted.

    python -m scripts.backtest.record_split

Writes `data/split.csv`, one line for each row of `data/published_runs.csv`:

- `group`: sources whose rows are fitted together, because they ran the same software.
- `size`: the model size of the row. A size is held out of every source of its group at once.
- `fold`: rows of one fold are scored by constants fitted to the other folds of the group. Up to
  eight sizes each have a fold of their own; more are dealt to five folds in order of size.
- `calibration`: the five rows of a source that a calibration may see when the source is held out
  whole; the rest of the source is scored. They are spread evenly over its timed rows.
"""

import csv
from pathlib import Path

DATA = Path(__file__).parent / "data"
RUNS = DATA / "published_runs.csv"
SPLIT = DATA / "split.csv"

NEMO = (
    "Megatron-Bridge perf summary",
    "NVIDIA dgxc-benchmarking",
    "NeMo perf docs",
    "MLPerf Training v5.0",
    "MLPerf Training v4.1",
    "Megatron-LM README H100",
    "Megatron-MoE-ModelZoo",
)
"""Sources that ran NVIDIA's own stack on Hopper and Blackwell."""
UNNAMED = ("vTrain single-node", "vTrain multi-node", "Megatron-LM CI golden values")
"""Sources whose model names do not tell sizes apart: the dimensions do."""
MOST_FOLDS_OF_ONE = 8
FOLDS = 5
CALIBRATION_ROWS = 5

Row = dict[str, str]


def main() -> None:
    """Read the rows, write the split."""
    with RUNS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    calibrating = {
        row["id"] for source in {r["source"] for r in rows} for row in calibration(rows, source)
    }
    folds = {group: folds_of(rows, group) for group in {group_of(row) for row in rows}}
    with SPLIT.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["id", "group", "size", "fold", "calibration"])
        for row in rows:
            group, size = group_of(row), size_of(row)
            writer.writerow(
                [row["id"], group, size, folds[group][size], int(row["id"] in calibrating)]
            )


def group_of(row: Row) -> str:
    """The rows that are fitted together with this one."""
    return "nemo" if row["source"] in NEMO else row["source"]


def size_of(row: Row) -> str:
    """What must not be in both the fitted and the scored rows."""
    if row["source"] in UNNAMED and row["layers"] and row["hidden"]:
        return f"{row['layers']} x {row['hidden']}"
    return row["model"]


def folds_of(rows: list[Row], group: str) -> dict[str, int]:
    """The fold of each size of a group."""
    weights: dict[str, float] = {}
    for row in rows:
        if group_of(row) == group:
            weights.setdefault(size_of(row), weight(row))
    ordered = sorted(weights, key=lambda size: (weights[size], size))
    count = len(ordered) if len(ordered) <= MOST_FOLDS_OF_ONE else FOLDS
    return {size: place % count for place, size in enumerate(ordered)}


def weight(row: Row) -> float:
    """Parameters, stated or by their leading term, to order sizes by."""
    if row["params_b"]:
        return float(row["params_b"])
    return float(row["layers"] or 0) * float(row["hidden"] or 0) ** 2 * 12e-9


def calibration(rows: list[Row], source: str) -> list[Row]:
    """The rows of a source that a calibration may see."""
    timed = [row for row in rows if row["source"] == source and is_timed(row)]
    if len(timed) <= CALIBRATION_ROWS:
        return []
    stride = len(timed) / CALIBRATION_ROWS
    return [timed[int((place + 0.5) * stride)] for place in range(CALIBRATION_ROWS)]


def is_timed(row: Row) -> bool:
    """Whether a speed was published, in whatever unit."""
    speeds = ("measured_step_time_s", "measured_tokens_per_s_per_gpu", "measured_tflops_per_gpu")
    return any(row[name] for name in speeds)


if __name__ == "__main__":
    main()
