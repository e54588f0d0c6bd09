# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
import hashlib
from pathlib import Path

from backtest.prequential import RECORDS, read_record, score

FIRST = RECORDS / "2026-11-124b130.csv"
DIGESTS = {FIRST.name: "86fa98dbdc421373a20b574bdd2e394b6b991ab9a4ef9e223cba888eec8ac7f2"}
"""A record counts because it was made before the planner saw the runs: it must not change."""


def test_the_records_are_as_they_were_made() -> None:
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in RECORDS.glob("*.csv")
    }
    assert found == DIGESTS


def test_the_first_record_scores_as_it_was_reported() -> None:
    predictions = read_record(FIRST)
    megatron = score("", [row for row in predictions if row.engine == "megatron"])
    foundry = score("", [row for row in predictions if row.engine == "llm-foundry"])
    assert len(predictions) == 207
    assert (megatron.scored, megatron.inside, round(megatron.median_error, 2)) == (119, 87, 0.10)
    assert (foundry.scored, foundry.inside) == (84, 83)


def test_a_run_without_a_prediction_is_not_scored(tmp_path: Path) -> None:
    path = tmp_path / "one.csv"
    path.write_text("source,error,note\nA,,not planned\nA,+0.30,stated nine of ten ±12%\n")
    result = score("A", read_record(path))
    assert (result.rows, result.scored, result.inside, result.median_error) == (2, 1, 0, 0.30)
