# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The broken runs of the first set that need no cluster are caught at the right place."""

import tomllib
from pathlib import Path

from scripts.checking.described_data import DescribedData
from scripts.score_checks import LATER
from seatrial.catalog.catalog import Catalog
from seatrial.checks.check import check
from seatrial.findings import Severity

FIRST = Path(__file__).parents[2] / "data" / "broken_runs" / "first"
LEAST = 0.95


def test_the_first_set_is_caught_at_the_right_place(catalog: Catalog) -> None:
    cases = [
        tomllib.loads((folder / "case.toml").read_text()) for folder in sorted(FIRST.glob("*/"))
    ]
    wanted = [case for case in cases if case["kind"] not in LATER]
    missed = []
    for case in wanted:
        folder = next(FIRST.glob(f"{case['id']}*"))
        text, data = (folder / "run.yaml").read_text(), DescribedData.of(folder)
        findings = check(text, "run.yaml", catalog, data=data).findings
        fields = {f.where.field for f in findings if f.severity is not Severity.NOTE}
        if not fields & {case["field"], *case.get("also", ())}:
            missed.append(case["id"])
    assert len(wanted) > 100
    assert len(missed) <= (1 - LEAST) * len(wanted), missed
