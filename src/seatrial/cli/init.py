# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial init`: a new run.yaml."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from seatrial.catalog.catalog import Catalog, Kind, default_catalog
from seatrial.cli.output import say
from seatrial.cli.recipes import write_new
from seatrial.errors import FindingsError, NotInCatalogError, UsageError
from seatrial.findings import Finding, Where
from seatrial.naming import MAX_RUN_NAME, as_dns_label, is_dns_label
from seatrial.recipes.starter import Wishes, starter
from seatrial.units import parse_count

app = typer.Typer(rich_markup_mode=None, add_completion=False)


def _complete(kind: Kind) -> object:
    """Completion: the names of a kind."""

    def names(incomplete: str) -> list[str]:
        return [n for n in default_catalog().names(kind) if n.startswith(incomplete)]

    return names


@app.command()
def command(
    output: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path(
        "run.yaml"
    ),
    model: Annotated[
        str, typer.Option(autocompletion=_complete(Kind.MODELS), help="Preset of the catalog.")
    ] = "gpt3-125m",
    profile: Annotated[
        str, typer.Option(autocompletion=_complete(Kind.PROFILES), help="Kind of cluster.")
    ] = "local",
    node_type: Annotated[
        str | None,
        typer.Option(
            autocompletion=_complete(Kind.NODE_TYPES), help="Machine; the profile's by default."
        ),
    ] = None,
    nodes: Annotated[int, typer.Option(min=1, help="Number of machines.")] = 1,
    processes: Annotated[
        int | None,
        typer.Option("--processes-per-node", min=1, help="Processes; one per GPU by default."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Raw text: hf://datasets/..., s3://, abfs://, gs:// or a path."),
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="hf://NAME or a file; the preset's by default.")
    ] = None,
    tokens: Annotated[str, typer.Option(help="Length of the run.")] = "10B",
    name: Annotated[
        str | None, typer.Option(help="Name of the run; made from the model by default.")
    ] = None,
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Ask for each value on the terminal.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """Write a commented run.yaml with a legal first layout."""
    catalog = default_catalog()
    wishes = Wishes(
        name=name or as_dns_label(model),
        model=model,
        profile=profile,
        node_type=node_type,
        nodes=nodes,
        processes_per_node=processes,
        data=data,
        tokenizer=tokenizer,
        tokens=tokens,
    )
    if interactive:
        wishes = _ask(wishes, catalog)
    try:
        new = starter(wishes, catalog)
    except FindingsError as error:
        raise FindingsError([_about_flag(finding) for finding in error.findings]) from None
    write_new(output, new.text, force=force)
    say(f"Wrote {output}: {wishes.model} on {wishes.nodes} × {new.node_type} ({wishes.profile}).")
    if new.shortage:
        say(f"It does not fit: {new.shortage} Use more nodes.")
    say(f"next  seatrial validate {output}")


FLAGS = {
    "name": "--name",
    "model.preset": "--model",
    "data.sources[0].from": "--data",
    "data.tokenizer": "--tokenizer",
    "training.tokens": "--tokens",
    "cluster.profile": "--profile",
    "cluster.node_type": "--node-type",
    "cluster.nodes": "--nodes",
    "cluster.processes_per_node": "--processes-per-node",
}
"""The flag that each field of a new spec comes from."""


def _about_flag(finding: Finding) -> Finding:
    """The finding with the flag in place of a line in a file that was not written."""
    flag = FLAGS.get(finding.where.field, finding.where.field)
    return replace(finding, where=Where(field=flag))


def _ask(wishes: Wishes, catalog: Catalog) -> Wishes:
    """Ask for each value, offering the one that flags or defaults give."""
    if not sys.stdin.isatty():
        raise UsageError("--interactive needs a terminal. Give the values as flags instead.")
    model = _ask_name("Model", wishes.model, Kind.MODELS, catalog)
    profile = _ask_name("Kind of cluster", wishes.profile, Kind.PROFILES, catalog)
    default_node = wishes.node_type or catalog.profile(profile).default_node_type
    node_type = _ask_name("Node type", default_node, Kind.NODE_TYPES, catalog)
    gpus = catalog.node_type(node_type).gpus
    nodes = typer.prompt("Nodes", wishes.nodes, type=int)
    processes = wishes.processes_per_node
    if not gpus:
        processes = typer.prompt("Processes on each node", processes or 2, type=int)
    data = typer.prompt("Raw text (address, or empty for mock data)", wishes.data or "")
    return Wishes(
        name=_ask_run_name(wishes.name if wishes.model == model else as_dns_label(model)),
        model=model,
        profile=profile,
        node_type=node_type,
        nodes=nodes,
        processes_per_node=processes,
        data=data or None,
        tokenizer=wishes.tokenizer,
        tokens=_ask_tokens(wishes.tokens),
    )


def _ask_name(question: str, default: str, kind: Kind, catalog: Catalog) -> str:
    """Ask until the answer is in the catalog."""
    while True:
        answer: str = typer.prompt(f"{question} (? lists them)", default)
        if answer == "?":
            say("  " + ", ".join(catalog.names(kind)))
            continue
        try:
            catalog.canonical(kind, answer)
        except NotInCatalogError as error:
            say(f"  {error}")
            continue
        return answer


def _ask_tokens(default: str) -> str:
    """Ask until the answer is a count."""
    while True:
        answer: str = typer.prompt("Tokens to train on", default)
        try:
            parse_count(answer)
        except ValueError as error:
            say(f"  {error}.")
            continue
        return answer


def _ask_run_name(default: str) -> str:
    """Ask until the answer can name a run."""
    while True:
        answer: str = typer.prompt("Name of the run", default)
        if is_dns_label(answer, MAX_RUN_NAME):
            return answer
        say(f"  Lower-case letters, digits and hyphens, a letter first; {as_dns_label(answer)}?")
