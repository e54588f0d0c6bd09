# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""Tables and text at the width of a terminal."""

import pytest

from seatrial.reports import tables
from seatrial.reports.terminal import counted, say_text

COLUMNS = (
    tables.name("name"),
    tables.number("size"),
    tables.text("about"),
    tables.text("lesser", rank=1),
)
ROWS = [
    ("a-rather-long-name", "7", "what it is for", "and something else"),
    ("short", "1,024", "words", "unabbreviated"),
]


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_off_a_terminal_a_table_is_as_wide_as_its_content(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    tables.say_table(COLUMNS, ROWS)
    assert printed(capsys) == [
        "name                 size  about           lesser",
        "a-rather-long-name      7  what it is for  and something else",
        "short               1,024  words           unabbreviated",
    ]


def test_words_wrap_and_names_do_not(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "52")
    tables.say_table(COLUMNS, ROWS)
    lines = printed(capsys)
    assert max(map(len, lines)) <= 52
    assert lines[1].startswith("a-rather-long-name      7  ")
    assert lines[-1].split() == ["short", "1,024", "words", "unabbreviated"]


def test_a_lesser_column_gives_way_and_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "41")
    tables.say_table(COLUMNS, ROWS)
    assert printed(capsys) == [
        "name                 size  about",
        "a-rather-long-name      7  what it is for",
        "short               1,024  words",
        "The output is too narrow (41 characters)",
        "for: lesser. To see all columns, use",
        "--json.",
    ]


def test_text_hangs_below_its_label(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    say_text("one two three averyveryverylongword", "  label ")
    assert printed(capsys) == [
        "  label one two",
        "        three",
        "        averyveryverylongword",
    ]


def test_a_number_and_its_noun() -> None:
    assert counted(1, "process", "processes") == "1 process"
    assert counted(2048, "process", "processes") == "2,048 processes"
    assert counted(2, "error") == "2 errors"
