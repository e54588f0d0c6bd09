# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The tutorial's pages are walked through and compared as they should be."""

from pathlib import Path

import pytest

from docs.tools.page_blocks import blocks_of
from docs.tools.page_parts import QUICKSTART, part
from docs.tools.tutorial.comparing import difference, is_same, without_progress
from docs.tools.tutorial.walk import INDEX, PAGES, QUICK, WALKERS, Walk, times_table


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("took 12 s", "took 3.4 s"),
        ("loss 7.60 → 4.31", "loss 7.61 → 4.40"),
        ("412,311 tokens", "412,900 tokens"),
        ("plan sha256:2627abbe6e41", "plan sha256:0000abbe6e41"),
        ("saved 2 min ago", "saved 31 s ago"),
        ("| the for statement", "| a while loop of another kind\n|\n| and more"),
        ("one line that\n  was broken", "one line\n  that was broken"),
        ("6e-07 from the engine's", "8e-07 from the engine's"),
        ("lengths   16 ▕▂█▆▃▏ 4,096", "lengths   16 ▕▂██▃▏ 4,096"),
        ("a        5 s", "a  104 s"),
        ("goodput 43 % of 4 min", "goodput 61 % of 95 s"),
        ("time  training 43 % · starting 27 %", "time  training 61 % · waiting 12 % · saving 1 %"),
        ("rank 0 killed at step 18, resumed", "rank 1 killed at step 12, resumed"),
        ("logits: 0e+00 from", "logits: 9e-05 from"),
        ("lm loss: 9.979639E-01 |", "lm loss: 1.003639E+00 |"),
        ("32 tensors equal", "32\n   tensors equal"),
        ("in 50 s", "in 1.2 min"),
    ],
)
def test_what_differs_from_run_to_run_is_the_same(shown: str, printed: str) -> None:
    assert is_same(shown, printed)


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("resumed at 10", "resumed at 11"),
        ("loss 7.60 → 4.31", "loss 7.60 → 5.31"),
        ("losses equal bit for bit", "3 of 10 steps differ"),
        ("412,311 tokens", "312,311 tokens"),
        ("kept", "kept kept"),
        ("2 files", "3 files"),
        ("node 0  ▕0│1▏", "node 0  ▕1│0▏"),
        ("logits: 0e+00 from", "logits: 9e+05 from"),
        ("logits: 0e+00 from", "logits: 2e-03 from"),
        ("260,032 parameters", "260,033 parameters"),
        ("1.57 M parameters", "1.58 M parameters"),
        ("1,032 tensors", "1,031 tensors"),
        ("megatron 0.19.2 on CPU", "megatron 0.18.2 on CPU"),
        ("loss 6.23 → 5.89", "loss 6.23 → 6.40"),
        ("loss 6.23 → 6.10", "loss 6.23 → 6.23"),
        ("took 3 s", "took 300 days"),
        ("took 3 s", "took 3 h"),
        ("took 3 s", "took 3 steps"),
        ("goodput 52 % of 3 min", "goodput 1 % of 3 min"),
        ("goodput 52 % of 3 min", "goodput 520 % of 3 min"),
        ("time  training 43 % · starting 27 %", "time  training 0.4 % · hung 99 %"),
    ],
)
def test_what_must_not_differ_is_noticed(shown: str, printed: str) -> None:
    assert not is_same(shown, printed)
    assert difference(shown, printed)


def test_a_page_is_the_same_as_itself_and_not_as_one_with_a_wrong_figure() -> None:
    page = QUICKSTART.read_text(encoding="utf-8")
    assert is_same(page, page)
    for shown, wrong in {
        "260,032 parameters": "240,000 parameters",
        "megatron 0.19.2": "megatron 0.18.2",
        "in transformers differ by 0e+00": "in transformers differ by 9e+05",
    }.items():
        assert shown in page
        assert not is_same(page, page.replace(shown, wrong)), wrong


def test_progress_is_no_part_of_what_is_shown() -> None:
    said = (
        "  listing the inputs",
        "  preparing; corpus 0%, 0 B/s",
        "  kill: resumed, step 12 of 20",
        "  kill: resumed, step 12 of 20, about 2.8 s left",
    )
    printed = "\n".join((*said, "done  ", "", ""))
    assert without_progress(printed) == "done\n"


WALKED = f"<!-- executed by: {QUICK}{{}} -->\n```console\n$ {{}}\n```\n"


@pytest.mark.parametrize(
    ("told", "command"),
    [("", "true"), ("", "yes | head -n 0"), (", exit 3", "exit 3"), (", exit 1", "false | cat")],
)
def test_a_walk_goes_on_where_commands_end_as_the_page_says(
    told: str, command: str, tmp_path: Path
) -> None:
    page = WALKED.format(told, command)
    assert Walk(tmp_path).through_text(page) == page


@pytest.mark.parametrize(
    ("told", "command"), [("", "exit 3"), ("", "false | cat"), (", exit 1", "true")]
)
def test_a_walk_ends_where_a_command_fails(told: str, command: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="ended with"):
        Walk(tmp_path).through_text(WALKED.format(told, command))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_of_a_chapter_is_walked(page: Path) -> None:
    typed = [block for block in blocks_of(page) if block.language == "console"]
    assert typed
    assert [
        block.place for block in typed if not block.marker or block.marker.value not in WALKERS
    ] == []


def test_the_index_has_a_place_for_the_times() -> None:
    assert part(INDEX, "times")
    assert "| all | 2.5 min |" in times_table({"data": 60.0, "export": 90.0})
