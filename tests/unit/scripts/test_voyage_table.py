# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The table of voyages has the newest of each kind, and keeps those that were not made again."""

import json
from pathlib import Path

import pytest

from scripts import write_voyage_table as tables


def voyage(title: str, rehearse: float, resumed: list[int]) -> str:
    seconds = {"data": 30.0, "rehearse": rehearse}
    told = {"title": title, "seconds": seconds, "resumed": resumed, "logits": 0.0, "load": 3.2}
    return json.dumps(told) + "\n"


def test_the_newest_of_each_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, results = tmp_path / "page.md", tmp_path / "voyages.jsonl"
    for name, file in (("PAGE", page), ("RESULTS", results), ("KEPT", tmp_path / "kept.json")):
        monkeypatch.setattr(tables, name, file)
    page.write_text("before\n<!-- voyages -->\nold\n<!-- end -->\nafter\n")
    results.write_text(voyage("host", 10, []) + voyage("pods", 90, [47]) + voyage("host", 70, []))
    tables.main()
    text = page.read_text()
    assert "before\n<!-- voyages -->\n|  | host | pods |\n" in text
    assert "| the whole way | 100 s | 120 s |\n" in text
    assert "| rehearse | 70 s, 70% | 90 s, 75% |\n" in text
    assert "| resumed at step | not killed | 47 |\n" in text
    assert text.endswith("<!-- end -->\nafter\n")

    results.write_text(voyage("pods", 30, [46]))
    tables.main()
    assert "| the whole way | 100 s | 60 s |\n" in page.read_text()
