# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Tables about LLM Foundry are made of what was recorded, the newest of each row."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scripts import write_foundry_tables as tables
from scripts.fault_results import keep


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that stands for the build's, and the page in it."""
    for name, file in (("FIGURES", "figures"), ("PAGE", "page.md")):
        monkeypatch.setattr(tables, name, tmp_path / file)
    files = (tmp_path / "results", tmp_path / "kept")
    monkeypatch.setattr(tables, "keep", partial(keep, *files))
    (tmp_path / "page.md").write_text(
        tables.ROOT.joinpath("docs/guides/llm-foundry.md").read_text()
    )
    return tmp_path


def write(file: Path, *entries: dict[str, Any]) -> None:
    file.write_text("".join(json.dumps(entry) + "\n" for entry in entries))


def row(table: str, *cells: str) -> dict[str, Any]:
    return {"table": table, "row": cells}


def kill(seed: int, sharding: str, *, right: bool) -> dict[str, Any]:
    return {"suite": "llm-foundry kills", "seed": seed, "sharding": sharding, "right": right}


def test_every_table_has_its_place_on_the_page() -> None:
    page = tables.PAGE.read_text()
    assert [name for name in tables.HEADS if page.count(f"<!-- {name} -->\n") != 1] == []


def test_the_newest_row_of_what_was_measured_counts(recorded: Path) -> None:
    write(
        recorded / "figures",
        row("exports", "MPT", "2 ranks, FSDP", "GPT2LMHeadModel", "9.0e-01"),
        row("exports", "MPT", "2 ranks, one file", "GPT2LMHeadModel", "2.0e-07"),
        row("exports", "MPT", "2 ranks, FSDP", "GPT2LMHeadModel", "1.0e-07"),
        row("mds", "64 tokens a sample", "624 of 624"),
    )
    found = tables.figures()
    assert [cells[1:] for cells in found["exports"].values()] == [
        ["2 ranks, FSDP", "GPT2LMHeadModel", "1.0e-07"],
        ["2 ranks, one file", "GPT2LMHeadModel", "2.0e-07"],
    ]
    assert list(found["mds"]) == ["64 tokens a sample"]


def test_kills_are_counted_by_sharding_and_a_wrong_one_is_not_equal(recorded: Path) -> None:
    other = {"suite": "kills", "seed": 1, "right": False}
    write(
        recorded / "results",
        kill(1, "fsdp", right=False),
        kill(2, "fsdp", right=True),
        kill(1, "none", right=True),
        other,
    )
    body = tables.kills()["kills"].values()
    assert [cells[1:] for cells in body] == [["2", "1"], ["1", "1"]]


def test_a_seed_that_was_run_again_counts_once(recorded: Path) -> None:
    write(recorded / "results", kill(1, "fsdp", right=False), kill(1, "fsdp", right=True))
    (cells,) = tables.kills()["kills"].values()
    assert cells[1:] == ["1", "1"]


def test_a_table_is_replaced_and_the_others_stay(recorded: Path) -> None:
    before = (recorded / "page.md").read_text()
    write(recorded / "figures", row("parity", "mpt, 2 ranks", "1.0e-07", "2.0e-07"))
    tables.main()
    after = (recorded / "page.md").read_text()
    assert "| mpt, 2 ranks | 1.0e-07 | 2.0e-07 |\n<!-- end -->" in after
    first, rest = after.split("<!-- parity -->")[0], after.split("<!-- end -->", 1)[1]
    assert before.startswith(first)
    assert before.endswith(rest)


def test_nothing_recorded_changes_nothing(recorded: Path) -> None:
    before = (recorded / "page.md").read_text()
    tables.main()
    assert (recorded / "page.md").read_text() == before
