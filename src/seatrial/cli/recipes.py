# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial recipes`: the specs that ship with Seatrial."""

from pathlib import Path
from typing import Annotated

import typer

from seatrial.cli.options import Force, Json, examples
from seatrial.recipes.shipped import recipe, recipe_names
from seatrial.reports import tables
from seatrial.reports.terminal import say, say_json, say_next, say_text
from seatrial.sdk.output_files import write_new

app = typer.Typer(
    help="List, show and copy the specs that ship with Seatrial.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


def _names(incomplete: str) -> list[str]:
    """Complete the names of recipes."""
    return [name for name in recipe_names() if name.startswith(incomplete)]


Name = Annotated[
    str, typer.Argument(metavar="NAME", autocompletion=_names, help="A recipe's name.")
]


@app.command("list", epilog=examples("seatrial recipes list", "seatrial recipes list --json"))
def list_recipes(as_json: Json = False) -> None:
    """List the recipes and their purpose."""
    rows = [(name, recipe(name).spec.description) for name in recipe_names()]
    if as_json:
        say_json([{"name": name, "description": text} for name, text in rows])
        return
    tables.say_table((tables.name("name"), tables.text("for")), rows)
    say()
    say_text(f"next  seatrial recipes copy {rows[0][0]} run.yaml", rest="  ")


@app.command(
    epilog=examples(
        "seatrial recipes show eks-llama2-7b-p4d",
        "seatrial recipes show eks-llama2-7b-p4d > run.yaml",
    )
)
def show(name: Name, as_json: Json = False) -> None:
    """Print a recipe with its comments."""
    found = recipe(name)
    if as_json:
        say_json(found.spec.model_dump(mode="json", by_alias=True))
        return
    say(found.text.rstrip("\n"))
    say_next(f"seatrial recipes copy {name} run.yaml")


@app.command(
    epilog=examples(
        "seatrial recipes copy aks-mpt-125m",
        "seatrial recipes copy aks-mpt-125m my-run.yaml --force",
    )
)
def copy(
    name: Name,
    to: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path(
        "run.yaml"
    ),
    force: Force = False,
) -> None:
    """Copy a recipe to a file."""
    found = recipe(name)
    write_new(to, found.text, force=force)
    say_text(f"Wrote {to} from {name}.", rest="  ")
    say(f"next  seatrial validate {to}")
