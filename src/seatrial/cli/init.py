# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""`seatrial init`: a new run.yaml."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from seatrial.catalog.catalog import Catalog, Kind, default_catalog
from seatrial.cli.files import Force, refuse_existing, write_new
from seatrial.cli.interview import FLAGS, interview, whole_number
from seatrial.cli.output import say, say_text
from seatrial.errors import FindingsError, UnreadableError
from seatrial.findings import Finding, Where
from seatrial.naming import as_dns_label
from seatrial.recipes.starter import Starter, Wishes, starter, usual

app = typer.Typer(rich_markup_mode=None, add_completion=False)


def _complete(kind: Kind) -> object:
    """Completion: the names of a kind."""

    def names(incomplete: str) -> list[str]:
        return [n for n in default_catalog().names(kind) if n.startswith(incomplete)]

    return names


def _number(given: str | int) -> int:
    """The number that a flag gives; its default comes through here too."""
    try:
        return whole_number(str(given))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Output = Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")]
Model = Annotated[
    str | None,
    typer.Option(
        autocompletion=_complete(Kind.MODELS),
        help="Preset of the catalog; stories-260k on this host by default, else gpt3-125m.",
    ),
]
Profile = Annotated[
    str, typer.Option(autocompletion=_complete(Kind.PROFILES), help="Kind of cluster.")
]
NodeType = Annotated[
    str | None,
    typer.Option(
        autocompletion=_complete(Kind.NODE_TYPES), help="Machine; the profile's by default."
    ),
]
Nodes = Annotated[int, typer.Option(parser=_number, metavar="N", help="Number of machines.")]
Processes = Annotated[
    int | None,
    typer.Option(
        "--processes-per-node",
        parser=_number,
        metavar="N",
        help="Processes; one per GPU by default, 2 without GPUs.",
    ),
]
Data = Annotated[
    str | None, typer.Option(help="Raw text: hf://datasets/..., s3://, abfs://, gs:// or a path.")
]
Tokenizer = Annotated[
    str | None, typer.Option(help="hf://NAME or a file; the preset's by default.")
]
Tokens = Annotated[
    str | None, typer.Option(help="Length of the run; 300k on this host by default, else 10B.")
]
Name = Annotated[str | None, typer.Option(help="Name of the run; made from the model by default.")]
Interactive = Annotated[
    bool, typer.Option("--interactive", "-i", help="Ask for each value on the terminal.")
]


@app.command()
def command(
    output: Output = Path("run.yaml"),
    model: Model = None,
    profile: Profile = "local",
    node_type: NodeType = None,
    nodes: Nodes = 1,
    processes: Processes = None,
    data: Data = None,
    tokenizer: Tokenizer = None,
    tokens: Tokens = None,
    name: Name = None,
    interactive: Interactive = False,
    force: Force = False,
) -> None:
    """Write a short run.yaml; layout, batch and saves are left to the planner."""
    refuse_existing(output, force=force)
    catalog = default_catalog()
    model = usual(catalog.profile(profile)).model if model is None else model
    wishes = Wishes(
        name=as_dns_label(model) if name is None else name,
        model=model,
        profile=profile,
        node_type=node_type,
        nodes=nodes,
        processes_per_node=processes,
        data=data,
        tokenizer=tokenizer,
        tokens=tokens,
        volume=_volume(output),
    )
    if interactive:
        wishes = interview(wishes, catalog)
    new = _made(wishes, catalog)
    is_taken = not output.exists() and (output.parent / ".seatrial" / wishes.name).is_dir()
    write_new(output, new.text, force=force)
    machines = f"{wishes.nodes:,} × {new.node_type} ({wishes.profile})"
    say_text(f"Wrote {output}: {wishes.model} on {machines}.", rest="  ")
    if is_taken:
        say_text(
            f"There is a run {wishes.name} in this directory already, and a name means one run: "
            f"plan, attempts and checkpoints would be shared. Change name: in {output}.",
            rest="  ",
        )
    if wishes.profile == "local":
        for path in _not_there(wishes.data, wishes.tokenizer):
            say_text(f"There is nothing at {path} yet; the run will read it here.", rest="  ")
    say(f"next  seatrial plan {output}")


def _not_there(*places: str | None) -> list[str]:
    """Those that are paths of this host, and not there."""
    paths = [place for place in places if place and "://" not in place]
    return [path for path in paths if not Path(path).exists()]


def _volume(output: Path) -> str | None:
    """A directory beside the file; nothing where no spec could name it."""
    directory = str(output.absolute().parent / "volume")
    return directory if re.fullmatch(r"[\w./+@%~-]+", directory) else None


def _made(wishes: Wishes, catalog: Catalog) -> Starter:
    """The new spec; findings speak of flags, since there is no file yet whose lines they mean."""
    try:
        return starter(wishes, catalog)
    except FindingsError as error:
        raise FindingsError([_about_flag(finding) for finding in error.findings]) from None
    except UnreadableError as error:
        raise FindingsError([_about_flag(error.finding)]) from None


def _about_flag(finding: Finding) -> Finding:
    """The finding with the flag in place of a line in a file that was not written."""
    flag = FLAGS.get(finding.where.field, finding.where.field)
    return replace(finding, where=Where(field=flag))
