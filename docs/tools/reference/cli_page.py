# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The reference page of the command line, from the commands' own help."""

from importlib import import_module
from typing import Any

import typer

from docs.tools.reference.markdown import code, fenced, page, plain, table
from seatrial.cli.main import COMMANDS, GROUPS
from seatrial.cli.main import app as root

WIDTH = 100
"""The width of usage lines, whatever the terminal."""
EVERYWHERE = {"install_completion", "show_completion", "help"}
"""Options that every command has; the top of the page describes them once."""

INTRODUCTION = """\
Commands print their result on standard output, and findings and messages on standard error. Colour
is used only on a terminal, and never if `NO_COLOR` is set. See [exit codes](exit-codes.md) for the
meaning of each exit code. `--help` or `-h` explains any command."""


def cli_page() -> str:
    command = typer.main.get_command(root)
    context = _context(command, "seatrial", None)
    blocks = [
        "# CLI",
        INTRODUCTION,
        *(_group(title, commands) for title, commands in GROUPS.items()),
        "## `seatrial`",
        fenced(command.get_usage(context)),
        _parameters(command, context, frozenset()),
    ]
    for name in COMMANDS:
        app: typer.Typer = import_module(f"seatrial.cli.{name}").app
        blocks += _command(typer.main.get_command(app), name, context, "##")
    return page(*blocks)


def _group(title: str, commands: dict[str, str]) -> str:
    return table((title, "what it does"), [(_toc(name), text) for name, text in commands.items()])


def _toc(name: str) -> str:
    return f"[`{name}`](#seatrial-{name})"


def _context(command: Any, name: str, parent: Any) -> Any:
    return typer.Context(command, info_name=name, parent=parent, terminal_width=WIDTH)


def _command(command: Any, name: str, parent: Any, heading: str) -> list[str]:
    """Describe a command, then its subcommands."""
    context = _context(command, name, parent)
    if not command.help:
        raise SystemExit(f"the command {context.command_path} has no docstring.")
    blocks = [
        f"{heading} `{context.command_path}`",
        plain(command.help.replace("\f", "")),
        fenced(command.get_usage(context)),
        _parameters(command, context, frozenset(EVERYWHERE)),
        _examples(command),
    ]
    for below, inner in getattr(command, "commands", {}).items():
        blocks += _command(inner, below, context, heading + "#")
    return blocks


def _examples(command: Any) -> str:
    """The examples below the help, as commands to copy."""
    lines = (command.epilog or "").splitlines()[2:]
    return "```sh\n" + "\n".join(line.strip() for line in lines) + "\n```" if lines else ""


def _parameters(command: Any, context: Any, hidden: frozenset[str]) -> str:
    """List the arguments and options, as in `--help`."""
    rows = []
    for parameter in command.params:
        if parameter.name in hidden or getattr(parameter, "hidden", False):
            continue
        record = parameter.get_help_record(context)
        if record is None or not record[1]:
            raise SystemExit(f"{context.command_path}: {parameter.name} has no help text.")
        rows.append((code(record[0]), plain(record[1])))
    return table(("argument or option", "meaning"), rows) if rows else ""
