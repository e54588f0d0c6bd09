# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import csv
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from backtest.prequential import RECORDS, RecordedPrediction, memory_line, read_record, score
from backtest.unseen_runs import forecast, measured_seconds, planned, rows
from seatrial.planning.timing.quantities import quantities

DOCS = Path(__file__).parents[2] / "docs"
RECORD = RECORDS / "2026-11-8d8ca26.csv"


@cache
def recorded(engine: str) -> tuple[RecordedPrediction, ...]:
    return tuple(row for row in read_record(RECORD) if row.engine == engine)


def test_no_source_dominates() -> None:
    others = {row["source"] for row in rows() if "NVIDIA" not in row["source"]}
    assert len(rows()) == 111
    assert len(others) >= 8
    assert max(Counter((row["source"], row["model"]) for row in rows()).values()) <= 25


def test_every_run_is_there_once_and_says_where_it_was_published() -> None:
    assert len({tuple(row.values()) for row in rows()}) == len(rows())
    assert [row for row in rows() if not row["where"] or not row["note"]] == []


def test_every_run_can_be_planned() -> None:
    found = [forecast(row) for row in rows()]
    assert {each.reason for each in found} == {""}
    measured = [each for each in found if each.row["memory_mib"]]
    assert len(measured) == 14
    assert all(each.memory_error is not None for each in measured)


def test_the_record_is_of_these_runs() -> None:
    with RECORD.open(newline="") as stream:
        lines = [
            (line["source"], line["repo_path_commit"], line["published_value"])
            for line in csv.DictReader(stream)
        ]
    assert lines == [(row["source"], row["where"], row["value"]) for row in rows()]


@pytest.mark.parametrize(
    ("source", "value", "tflops"),
    [
        ("XTuner benchmark", "42.537", 228.09),
        ("XTuner benchmark", "22.42", 216.4),
        ("Megatron-Bridge pull request (NVIDIA)", "38.3", 1670),
    ],
)
def test_the_operations_are_those_that_were_published(
    source: str, value: str, tflops: float
) -> None:
    (row,) = (row for row in rows() if (row["source"], row["value"]) == (source, value))
    chosen = planned(row).chosen
    assert chosen is not None
    rate = quantities(chosen.workload).model_flops / measured_seconds(row) / int(row["gpus"])
    assert rate / 1e12 == pytest.approx(tflops, rel=2e-3)


def test_tokens_per_second_are_per_gpu() -> None:
    row = next(row for row in rows() if row["metric"] != "step_s")
    tokens = int(row["gbs"]) * int(row["seq"])
    assert tokens / measured_seconds(row) / int(row["gpus"]) == pytest.approx(float(row["value"]))


def test_the_record_scores_as_the_pages_say() -> None:
    found = score("", recorded("megatron"))
    assert (found.scored, found.inside, round(found.median_error, 2)) == (98, 75, 0.21)
    page = (DOCS / "backtest.md").read_text()
    assert "Of 98 Megatron runs, 75 (77 %) are within" in page
    assert "77% of 98 later runs" in (DOCS / "accuracy.md").read_text()


@pytest.mark.parametrize(
    ("group", "line"),
    [
        ("dense", "| dense | 55 | 40 | 13 % |"),
        ("experts", "| mixtures of experts | 43 | 35 | 26 % |"),
        ("ampere", "| A100 and A800 | 13 | 12 | 22 % |"),
        ("hopper", "| H100, H200 and H800 | 43 | 34 | 13 % |"),
        ("blackwell", "| B200, B300, GB200 and GB300 | 42 | 29 | 28 % |"),
    ],
)
def test_the_groups_score_as_the_page_says(group: str, line: str) -> None:
    found = score("", (row for row in recorded("megatron") if group in (row.kind, row.generation)))
    assert line.endswith(
        f"| {found.scored} | {found.inside} | {found.median_error:.0%} |".replace("%", " %")
    )
    assert line in (DOCS / "backtest.md").read_text()


def test_the_memory_is_scored() -> None:
    assert memory_line(recorded("megatron")) == (
        "memory: 9 rows, 0 of 8 inside their stated range, errors -29% to +20%"
    )
    assert memory_line(row for row in recorded("megatron") if row.memory_error is None) is None
