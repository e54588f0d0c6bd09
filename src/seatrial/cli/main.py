# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The command `seatrial`: which commands there are, and how failures end."""

import sys
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from seatrial.cli.output import count_line, say, say_error, say_findings
from seatrial.errors import (
    ExitCode,
    FindingsError,
    SeatrialError,
    UnreadableError,
    UsageError,
)
from seatrial.version import VERSION

COMMANDS = {
    "init": "Write a commented run.yaml from a preset model and a cluster profile.",
    "validate": "Check a spec and show what it resolves to.",
    "schema": "Print the JSON Schema of a spec, for editors.",
    "catalog": "Look up models, accelerators, node types, fabrics, storage, images, profiles.",
    "recipes": "List, show and copy the specs that come with Seatrial.",
}
"""The commands and their summaries; a command's module is loaded when it is called."""


NOT_YET = ("plan", "check", "data", "rehearse", "render", "launch", "watch", "diagnose")
"""Commands of the journey that this version does not have; asking for one says so."""


class LazyGroup(TyperGroup):
    """The root command: knows its commands by name, and loads one when it is needed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All commands, in the order of a run's journey."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, loaded now."""
        if cmd_name in NOT_YET:
            raise UsageError(f"the command {cmd_name} is not part of version {VERSION}.")
        if cmd_name not in COMMANDS:
            return None
        app: typer.Typer = import_module(f"seatrial.cli.{cmd_name}").app
        command = typer.main.get_command(app)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """The list in `--help`, without loading any command."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what a user can mend ends in a message and an exit code."""
        try:
            return super().invoke(ctx)
        except FindingsError as error:
            say_findings(error.findings)
            say_error(f"\n{count_line(error.findings)}")
            raise typer.Exit(error.exit_code) from None
        except UnreadableError as error:
            say_findings([error.finding])
            raise typer.Exit(error.exit_code) from None
        except SeatrialError as error:
            say_error(f"seatrial: {error}")
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            say_error("\nStopped.")
            raise typer.Exit(ExitCode.INTERRUPTED) from None


app = typer.Typer(
    name="seatrial",
    cls=LazyGroup,
    help="Carry a language-model pretraining run from a raw corpus to a verified checkpoint.",
    epilog="Start with: seatrial recipes list, or seatrial init --help",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    """Print the version and stop."""
    if wanted:
        say(VERSION)
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Carry a language-model pretraining run from a raw corpus to a verified checkpoint."""


def main() -> NoReturn:
    """Run the command line; a defect of ours ends in a file to report, not in a traceback."""
    try:
        app(prog_name="seatrial")
    except Exception as error:
        _report_defect(error)
        sys.exit(ExitCode.INTERNAL)
    sys.exit(ExitCode.OK)


def _report_defect(error: Exception) -> None:
    """Keep the traceback in a file and say where it is."""
    # Loaded here because every start would pay for them.
    from tempfile import NamedTemporaryFile  # noqa: PLC0415
    from traceback import format_exception  # noqa: PLC0415

    with NamedTemporaryFile("w", prefix="seatrial-", suffix=".txt", delete=False) as file:
        file.writelines(format_exception(error))
    say_error(f"seatrial: this is a defect of Seatrial, not of your spec: {error}")
    say_error(f"Please report it with {file.name}, which says where it happened.")
