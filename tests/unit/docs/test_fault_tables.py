# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Tables of the fault suite are made of what was recorded, all of it."""

import json
from pathlib import Path

from docs.tools.page_parts import ROOT, table
from docs.tools.recorded_tables import (
    FAULT_TABLES,
    corruptions,
    goodput,
    keep_faults,
    kills,
    late_commits,
    starts,
)

KILL = {
    "suite": "kills",
    "seed": 1,
    "target": "agent",
    "moment": "step",
    "orphans_seconds": 0.25,
    "recovery_seconds": 12.0,
    "lost": 7,
    "differing": [],
    "right": True,
}


def test_another_checkout_goes_on_with_what_was_kept(tmp_path: Path) -> None:
    results, kept = tmp_path / "results.jsonl", tmp_path / "kept.jsonl"
    for seed in (1, 2):
        results.write_text(json.dumps(KILL | {"seed": seed}) + "\n")
        keep_faults(results, kept)
    results.unlink()
    assert [case["seed"] for case in keep_faults(results, kept)] == [1, 2]


def test_a_failure_counts_though_its_seed_was_run_again() -> None:
    assert kills([KILL | {"right": False}, KILL])[-1][:3] == ("all", "", "1 of 2")


def test_damage_is_counted_by_kind() -> None:
    start = {"suite": "starts", "what": "bit_flip", "right": True}
    assert starts([start, start | {"right": False}]) == [("bit flip", "1 of 2")]
    corruption = {"cases": 500, "silent": 1, "kinds": {"bit_flip": 250, "swap": 250}}
    assert corruptions([corruption, corruption]) == [("1,000", "2", "bit flip, swap")]
    assert late_commits([{"cases": 50, "refused": 49}]) == [("50", "49")]


def test_a_kill_that_left_a_trace_is_not_counted_as_recovered() -> None:
    wrong = KILL | {"seed": 2, "right": False, "differing": [3, 4], "lost": 9}
    first, last = kills([KILL, wrong])
    assert first[:4] == ("agent", "step", "1 of 2", "2")
    assert last[0] == "all"
    assert first[4:] == ("9", "0.25 s", "12.0 s")


def test_every_table_has_its_place_on_the_page() -> None:
    page = (ROOT / "docs/guides/supervision.md").read_text()
    assert [name for name in FAULT_TABLES if f"<!-- {name} -->\n" not in page] == []
    assert table(("a", "b"), [("1", "2")]) == "| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_pieces_of_the_goodput_are_added_up() -> None:
    piece = {
        "faults": 3,
        "wall_seconds": 300.0,
        "training_seconds": 240.0,
        "ideal_seconds": 250.0,
        "save_seconds": 0.5,
        "restart_seconds": 10.0,
    }
    other = piece | {"wall_seconds": 100.0, "training_seconds": 60.0, "ideal_seconds": 70.0}
    (row,) = goodput([piece, other])
    assert row == ("6", "7 min", "0.50 s", "10.0 s", "75.0 %", "80.0 %", "93.8 %")
