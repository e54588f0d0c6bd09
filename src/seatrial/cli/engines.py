# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial engines`: the training engines, their environments and settings."""

from typing import Annotated

import typer

from seatrial.cli.options import Json, Overrides, SpecFile, examples
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
    help="Install training engines, and show the settings of a run's engine.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@app.command("list", epilog=examples("seatrial engines list", "seatrial engines list --json"))
def list_engines(as_json: Json = False) -> None:
    """List the supported engines and the Python that each uses."""
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
    say_table((tables.name("engine"), tables.name("version"), tables.text("python")), table)
    say("\nnext  seatrial doctor   lists what else is missing")


@app.command(
    epilog=examples(
        "seatrial engines install llm-foundry", "seatrial engines install llm-foundry --json"
    )
)
def install(
    name: Annotated[str, typer.Argument(metavar="ENGINE", help="The engine, such as llm-foundry.")],
    as_json: Json = False,
) -> None:
    """Create an environment for an engine from its lock file, and test it.

    Rehearsals find the environment automatically. If it already exists, the command
    does nothing; an incomplete environment is replaced.
    """
    if name not in ENGINES:
        raise UsageError(f"{name!r} is not one of {', '.join(ENGINES)}.")
    engine = ENGINES[name]
    if name == DEFAULT_ENGINE:
        raise UsageError(
            f"{engine.title} is part of the worker extra: {engine.installation.command}. To use a "
            f"separate environment, set {engine.installation.variable} to its Python."
        )
    found = install_engine(engine, say_error)
    place = environment(engine)
    if as_json:
        say_json({"engine": str(name), "directory": str(place), **found})
        return
    say(f"{engine.title} {found['engine']} with PyTorch {found['torch']} is in {place}.")
    say("next  seatrial rehearse RUN.YAML")


@app.command(
    epilog=examples(
        "seatrial engines settings run.yaml", "seatrial engines settings run.yaml --json"
    )
)
def settings(file: SpecFile, overrides: Overrides = None, as_json: Json = False) -> None:
    """Print the settings that a run passes to its engine, in the engine's own format.

    Megatron accepts flags; LLM Foundry reads a YAML file with `composer -c llmfoundry train`.
    """
    planned = plan(file, overrides or ())
    engine = ENGINES[planned.spec.engine.name]
    arguments = engine.arguments(planned)
    if as_json:
        say_json(arguments)
        return
    say(engine.text(arguments).rstrip("\n"))
    say_next(f"seatrial rehearse {file}")
