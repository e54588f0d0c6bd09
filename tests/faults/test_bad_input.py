# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Inputs that are broken in 5,000 ways, and lines of 100 MB."""

import json
from pathlib import Path

import pytest

from tests.unit.dataprep.kernel_runs import (
    counts_add_up,
    encoder,
    listed,
    packed,
    run,
    written,
)
from tests.unit.dataprep.mutated_inputs import try_one

pytestmark = pytest.mark.faults

LONG = 100_000_000


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(10))
def test_no_input_crashes_or_loses_anything(part: int, tmp_path: Path) -> None:
    worked = 0
    for seed in range(500 * part, 500 * (part + 1)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        worked += try_one(seed, folder)
    # Neither all nor none of them fail, or the mutations test nothing.
    assert 150 < worked < 475


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.zst"])
def test_a_line_of_100_mb_is_a_document(name: str, tmp_path: Path) -> None:
    text = "the quick brown fox jumps over " * (LONG // 31)
    data = b'{"text": "a"}\n' + json.dumps({"text": text}).encode() + b'\n{"text": "b"}\n'
    ran = run(listed([written(tmp_path, name, packed(data, name))]), tmp_path / "out")
    short, long, last = ran.documents[""]
    assert (len(short), len(last)) == (2, 2)
    # Words repeat, so the tokens do too; the reference would need gigabytes for all of it.
    few = encoder().reference.encode([text[: 31 * 40]])[0].tolist()
    assert long[: len(few) - 2] == few[:-2]
    assert len(long) > len(text) // 6
    counts_add_up(ran)


@pytest.mark.timeout(600)
def test_bad_lines_of_100_mb_are_set_aside(tmp_path: Path) -> None:
    lines = [
        b'{"text": "' + b"x" * LONG,
        b"[" * LONG,
        b'{"text": "a"}',
        b"\xff" * LONG,
        b"\0" * LONG,
    ]
    data = packed(b"\n".join(lines), "a.jsonl.zst")
    del lines
    file = written(tmp_path, "a.jsonl.zst", data)
    ran = run(listed([file], largest_bad_share=1.0), tmp_path / "out")
    assert ran.record.counts.bad == {"not-json": 2, "nested-too-deep": 1, "not-utf-8": 1}
    assert [line["line"] for line in ran.quarantine] == [1, 2, 4, 5]
    counts_add_up(ran)
