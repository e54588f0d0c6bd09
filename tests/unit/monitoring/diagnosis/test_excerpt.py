# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""What is kept of a long log."""

import pytest

from seatrial.monitoring.diagnosis import excerpt
from seatrial.monitoring.diagnosis.evidence import EvidenceFile, EvidenceKind
from seatrial.monitoring.diagnosis.excerpt import LONGEST, MOST_ALIKE, Excerpt, read_excerpt


def read(*lines: str) -> Excerpt:
    return read_excerpt(EvidenceFile("log", EvidenceKind.LOG, lambda: lines))


def test_lines_that_differ_only_in_numbers_are_kept_a_hundred_times() -> None:
    alike = [f"rank {n}: NCCL error at 0x7f{n:04x}0" for n in range(3 * MOST_ALIKE)]
    other = "rank 3: NCCL error: unhandled system error"
    found = read(*alike, other)
    assert len(found.lines) == MOST_ALIKE + 1
    assert (found.lines[-1].number, found.lines[-1].text) == (3 * MOST_ALIKE + 1, other)


def test_of_the_rest_of_a_long_file_only_trouble_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excerpt, "WHOLE_LINES", 2)
    found = read("alpha", "beta", "gamma", "delta failed", "epsilon")
    assert [line.text for line in found.lines] == ["alpha", "beta", "delta failed"]


def test_steps_are_counted_where_their_lines_are_no_longer_kept() -> None:
    steps = 4 * MOST_ALIKE
    lines = [f" iteration {n:8d}/ 1000 | lm loss: 2.5E+00 |" for n in range(1, steps + 1)]
    found = read(*lines, "[batch=7/9]: loss 1", "step: 12 loss 3")
    assert list(found.steps)[-3:] == [steps, 7, 12]
    assert found.steps_after(10) == steps - 10 + 2


def test_few_outlines_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excerpt, "_MOST_OUTLINES", 3)
    words = [chr(ord("g") + n) * 5 for n in range(12)]
    assert [line.text for line in read(*words, *words).lines] == [*words, *words]


@pytest.mark.parametrize("before", range(LONGEST - 40, LONGEST + 2, 7))
def test_a_line_is_redacted_before_it_is_cut(before: int) -> None:
    long = "password='" + "p" * 2 * LONGEST + "' "
    for head in ("x" * before + " ", long + "x" * before + " "):
        for tail in ("", "y " * 50_000):
            (kept,) = read(f"{head}hf_{'aB3' * 11} {tail}").lines
            assert "aB" not in kept.text
            assert len(kept.text) <= LONGEST
