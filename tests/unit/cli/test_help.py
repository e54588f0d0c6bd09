# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`--help` of every command: readable at 80 columns, with examples that are valid."""

import shlex
from typing import Any

import pytest
import typer

from seatrial.cli.main import COMMANDS, GROUPS, OTHER_NAMES
from seatrial.cli.main import app as root
from tests.unit.cli.every_command import leaves

WIDTH = 80


ALL = dict(leaves())


def help_text(command: Any, name: str) -> str:
    context = typer.Context(command, info_name=name, terminal_width=WIDTH, max_content_width=WIDTH)
    return str(command.get_help(context))


@pytest.mark.parametrize("name", ALL)
def test_help_fits_the_width(name: str) -> None:
    text = help_text(ALL[name], f"seatrial {name}")
    assert max(map(len, text.splitlines())) <= WIDTH
    usage, _, rest = text.partition("\n\n")
    assert usage.startswith("Usage: ")
    # A text that does not fit would end in three dots; metavars such as RUN... are one word.
    assert not [line for line in rest.splitlines() if line.endswith((" ...", "…"))], text


@pytest.mark.parametrize("name", ALL)
def test_help_has_two_examples_that_parse(name: str) -> None:
    _, _, examples = help_text(ALL[name], f"seatrial {name}").partition("Examples:\n")
    lines = [line.strip() for line in examples.splitlines() if line.strip()]
    assert len(lines) >= 2, name
    for line in lines:
        words = shlex.split(line.partition(" > ")[0])
        prefix = ["seatrial", *name.split()]
        assert words[: len(prefix)] == prefix, line
        # Reading the arguments fails for an option or a value that does not exist.
        ALL[name].make_context(name, words[len(prefix) :])


def test_the_list_of_commands_shows_every_summary_on_one_line() -> None:
    text = help_text(typer.main.get_command(root), "seatrial").splitlines()
    for title, group in GROUPS.items():
        assert f"{title}:" in text
        for name, summary in group.items():
            assert any(line.split() == [name, *summary.split()] for line in text), name


def test_names_of_other_tools_lead_to_commands() -> None:
    assert set(OTHER_NAMES.values()) <= set(COMMANDS)
    assert not set(OTHER_NAMES) & set(COMMANDS)
