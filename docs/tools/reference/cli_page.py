# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The page of the command line: every command as it describes itself."""

from importlib import import_module
from typing import Any

import typer

from docs.tools.reference.markdown import code, fenced, page, plain, table
from seatrial.cli.main import COMMANDS
from seatrial.cli.main import app as root

WIDTH = 100
"""Columns of a usage line, whatever the terminal has."""
EVERYWHERE = {"install_completion", "show_completion", "help"}
"""Options that a command may have beside its own; they are described once, at the top."""

INTRODUCTION = """\
A command answers on standard output; findings and messages go to standard error. Colour is used on
a terminal only, and never when `NO_COLOR` is set. What a command ends with is one of the
[exit codes](exit-codes.md). `--help`, or `-h`, explains any command."""


def cli_page() -> str:
    command = typer.main.get_command(root)
    context = _context(command, "seatrial", None)
    blocks = [
        "# Command line",
        INTRODUCTION,
        table(("command", "what it does"), [(_toc(name), text) for name, text in COMMANDS.items()]),
        "## `seatrial`",
        fenced(command.get_usage(context)),
        _parameters(command, context, frozenset()),
    ]
    for name in COMMANDS:
        app: typer.Typer = import_module(f"seatrial.cli.{name}").app
        blocks += _command(typer.main.get_command(app), name, context, "##")
    return page(*blocks)


def _toc(name: str) -> str:
    return f"[`{name}`](#seatrial-{name})"


def _context(command: Any, name: str, parent: Any) -> Any:
    return typer.Context(command, info_name=name, parent=parent, terminal_width=WIDTH)


def _command(command: Any, name: str, parent: Any, heading: str) -> list[str]:
    """A command with its usage and parameters, then its own commands."""
    context = _context(command, name, parent)
    if not command.help:
        raise SystemExit(f"the command {context.command_path} has no docstring.")
    blocks = [
        f"{heading} `{context.command_path}`",
        plain(command.help.replace("\f", "")),
        fenced(command.get_usage(context)),
        _parameters(command, context, frozenset(EVERYWHERE)),
    ]
    for below, inner in getattr(command, "commands", {}).items():
        blocks += _command(inner, below, context, heading + "#")
    return blocks


def _parameters(command: Any, context: Any, hidden: frozenset[str]) -> str:
    """The arguments and options, as `--help` has them."""
    rows = []
    for parameter in command.params:
        if parameter.name in hidden or getattr(parameter, "hidden", False):
            continue
        record = parameter.get_help_record(context)
        if record is None or not record[1]:
            raise SystemExit(f"{context.command_path}: {parameter.name} has no help text.")
        rows.append((code(record[0]), plain(record[1])))
    return table(("argument or option", "meaning"), rows) if rows else ""
