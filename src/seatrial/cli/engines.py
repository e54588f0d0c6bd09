# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial engines`: the training engines, their environments and settings."""

from dataclasses import asdict
from typing import Annotated

import typer

from seatrial.cli.options import Json, Overrides, SpecFile, examples
from seatrial.engines.registry import ENGINES
from seatrial.reports import tables
from seatrial.reports.tables import say_table
from seatrial.reports.terminal import say, say_error, say_json, say_next
from seatrial.sdk import engines
from seatrial.sdk.plan import load_spec

app = typer.Typer(
    help="Install training engines, and show the settings of a run's engine.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


@app.command("list", epilog=examples("seatrial engines list", "seatrial engines list --json"))
def list_engines(as_json: Json = False) -> None:
    """List the supported engines and the Python that each uses."""
    found = engines.list_engines()
    if as_json:
        say_json([asdict(one) for one in found])
        return
    table = [
        (one.engine, one.version, one.python or f"not installed: {engine.installation.command}")
        for one, engine in zip(found, ENGINES.values(), strict=True)
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
    made = engines.install_engine(name, tell=say_error)
    found, place = made.versions, made.directory
    if as_json:
        say_json({"engine": name, "directory": str(place), **found})
        return
    say(f"{ENGINES[name].title} {found['engine']} with PyTorch {found['torch']} is in {place}.")
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
    found = engines.engine_settings(file, overrides or ())
    if as_json:
        say_json(found)
        return
    engine = ENGINES[load_spec(file, overrides or ()).engine.name]
    say(engine.text(found).rstrip("\n"))
    say_next(f"seatrial rehearse {file}")
