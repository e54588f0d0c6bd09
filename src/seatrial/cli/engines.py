# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial engines`: the training engines, their environments, and what they are told."""

from typing import Annotated

import typer

from seatrial.cli.options import Json, Overrides, SpecFile
from seatrial.engine_process.environments import environment
from seatrial.engine_process.environments import install as install_engine
from seatrial.engine_process.process import worker_python
from seatrial.engines.registry import ENGINES
from seatrial.errors import MissingExtraError, UsageError
from seatrial.reports import tables
from seatrial.reports.tables import say_table
from seatrial.reports.terminal import say, say_error, say_json, say_next
from seatrial.sdk.plan import plan
from seatrial.spec.engine import DEFAULT_ENGINE

app = typer.Typer(
    help="Install training engines beside this Seatrial, and show what a run tells its engine.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@app.command("list")
def list_engines(as_json: Json = False) -> None:
    """List the engines that a spec can name, and the Python that has each."""
    rows = []
    for name, engine in ENGINES.items():
        try:
            python = worker_python(engine)
        except MissingExtraError:
            python = ""
        rows.append({"engine": str(name), "version": engine.version, "python": python})
    if as_json:
        say_json(rows)
        return
    table = [
        (
            row["engine"],
            row["version"],
            row["python"] or f"not installed: {engine.installation.command}",
        )
        for row, engine in zip(rows, ENGINES.values(), strict=True)
    ]
    say_table((tables.name("engine"), tables.name("version"), tables.text("its Python")), table)
    say("\nnext  seatrial doctor   says what else is missing, and how to get it")


@app.command()
def install(
    name: Annotated[str, typer.Argument(metavar="ENGINE", help="Such as llm-foundry.")],
    as_json: Json = False,
) -> None:
    """Make an environment for an engine from its lock file, with hashes, and load the engine in it.

    Rehearsals find it by themselves. Twice does nothing; what was cut short is made anew.
    """
    if name not in ENGINES:
        raise UsageError(f"{name!r} is not one of {', '.join(ENGINES)}.")
    engine = ENGINES[name]
    if name == DEFAULT_ENGINE:
        raise UsageError(
            f"{engine.title} comes with the worker extra: {engine.installation.command}. In an "
            f"environment of its own, {engine.installation.variable} names that one's Python."
        )
    found = install_engine(engine, say_error)
    place = environment(engine)
    if as_json:
        say_json({"engine": str(name), "directory": str(place), **found})
        return
    say(f"{engine.title} {found['engine']} with PyTorch {found['torch']} is in {place}.")
    say("next  seatrial rehearse RUN.YAML")


@app.command()
def settings(file: SpecFile, overrides: Overrides = None, as_json: Json = False) -> None:
    """Print what a run tells its engine, in the engine's own form.

    Flags for Megatron; for LLM Foundry a YAML file that `composer -c llmfoundry train` takes.
    """
    planned = plan(file, overrides or ())
    engine = ENGINES[planned.spec.engine.name]
    arguments = engine.arguments(planned)
    if as_json:
        say_json(arguments)
        return
    say(engine.text(arguments).rstrip("\n"))
    say_next(f"seatrial rehearse {file}")
