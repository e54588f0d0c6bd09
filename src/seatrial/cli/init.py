# SPDX-FileCopyrightText: The Seatrial authors
# SPDX-License-Identifier: Apache-2.0
"""The questions of `seatrial init --interactive`; each answer is checked before the next."""

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from seatrial.catalog.catalog import Catalog, Kind, default_catalog
from seatrial.checks.check import check
from seatrial.cli.options import Force
from seatrial.errors import FindingsError, NotInCatalogError, UnreadableError, UsageError
from seatrial.findings import Finding, Severity, Where
from seatrial.naming import as_dns_label
from seatrial.recipes.starter import PROCESSES_WITHOUT_GPUS, Starter, Wishes, starter, usual
from seatrial.reports.terminal import say, say_findings, say_text
from seatrial.sdk.output_files import refuse_existing, write_new

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

LARGEST = 1_000_000
"""More machines than anybody has; beyond it a number is a slip of the keyboard."""


def whole_number(text: str) -> int:
    """A count of machines or processes."""
    if not text.strip().isdecimal() or not 1 <= int(text) <= LARGEST:
        raise ValueError(f"{text!r} is not a whole number from 1 to {LARGEST:,}.")
    return int(text)


def interview(wishes: Wishes, catalog: Catalog) -> Wishes:
    """Ask for each value, offering the one that flags or defaults give."""
    if not sys.stdin.isatty():
        raise UsageError("--interactive needs a terminal. Give the values as flags instead.")
    asking = _Interview(wishes, catalog)
    asking.model()
    asking.machines()
    asking.data()
    asking.run()
    return asking.wishes


@dataclass
class _Interview:
    """The wishes as they grow, answer by answer."""

    wishes: Wishes
    catalog: Catalog

    def model(self) -> None:
        """The preset, after which the run is named unless a name was given."""
        before = self.wishes.model
        names = self.catalog.names(Kind.MODELS)
        answer = self.ask_name("Model", before, Kind.MODELS, names)
        named_after = self.wishes.name == as_dns_label(before)
        name = as_dns_label(answer) if named_after else self.wishes.name
        self.wishes = replace(self.wishes, model=answer, name=name)

    def machines(self) -> None:
        """The profile, and of its machines which and how many."""
        profiles = self.catalog.names(Kind.PROFILES)
        answer = self.ask_name("Kind of cluster", self.wishes.profile, Kind.PROFILES, profiles)
        profile = self.catalog.profile(answer)
        given = self.wishes.node_type
        default = given if given in profile.node_types else profile.default_node_type
        node_type = self.ask_name("Node type", default, Kind.NODE_TYPES, list(profile.node_types))
        self.wishes = replace(self.wishes, profile=answer, node_type=node_type)
        nodes = _ask("Nodes", str(self.wishes.nodes), whole_number)
        self.wishes = replace(self.wishes, nodes=nodes)
        if not self.catalog.node_type(node_type).gpus:
            default = str(self.wishes.processes_per_node or PROCESSES_WITHOUT_GPUS)
            processes = _ask("Processes on each node", default, whole_number)
            self.wishes = replace(self.wishes, processes_per_node=processes)

    def data(self) -> None:
        """The raw text and the tokenizer."""
        question = "Raw text (address, or empty for mock data)"
        self.ask_field(question, "data", "data.sources[0].from", self.wishes.data or "")
        own = self.catalog.model(self.wishes.model).tokenizer
        default = self.wishes.tokenizer or own
        self.ask_field("Tokenizer", "tokenizer", "data.tokenizer", default)

    def run(self) -> None:
        """The length and the name."""
        profile = self.catalog.profile(self.wishes.profile)
        tokens = usual(profile).tokens if self.wishes.tokens is None else self.wishes.tokens
        self.ask_field("Tokens to train on", "tokens", "training.tokens", tokens)
        self.ask_field("Name of the run", "name", "name", self.wishes.name)

    def ask_name(self, question: str, default: str, kind: Kind, names: list[str]) -> str:
        """Ask until the answer is one of the names, or an alias of one."""

        def known(answer: str) -> str:
            if answer == "?":
                raise ValueError(", ".join(names))
            try:
                if self.catalog.canonical(kind, answer) in names:
                    return answer
            except NotInCatalogError as error:
                raise ValueError(str(error)) from None
            raise ValueError(f"This kind of cluster has no {answer}. Use {', '.join(names)}.")

        return _ask(f"{question} (? lists them)", default, known)

    def ask_field(self, question: str, wish: str, field: str, default: str) -> None:
        """Ask until the spec takes the answer for the field."""

        def accepted(answer: str) -> Wishes:
            changes: dict[str, Any] = {wish: answer or None}
            wishes = replace(self.wishes, **changes)
            problem = _problem(wishes, field, self.catalog)
            if problem:
                raise ValueError(problem)
            return wishes

        self.wishes = _ask(question, default, accepted)


def _ask[T](question: str, default: str, read: Callable[[str], T]) -> T:
    """Ask until the answer can be read; what is wrong with it is said at once."""
    while True:
        answer: str = typer.prompt(question, default)
        try:
            return read(answer.strip())
        except ValueError as error:
            say_text(str(error), "  ")


def _problem(wishes: Wishes, field: str, catalog: Catalog) -> str:
    """What the spec says of a field of the wishes; nothing when it takes it."""
    try:
        starter(wishes, catalog)
    except FindingsError as error:
        found = [f for f in error.findings if f.where.field == field]
        return " ".join(f"{finding.rule} {finding.fix}" for finding in found)
    return ""


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
    refused = _errors(new, output, catalog)
    if refused:
        say_text(f"seatrial launch would reject this run. Change {output} first:", rest="  ")
        say_findings(refused, sys.stdout)
    say(f"next  seatrial plan {output}")


def _errors(new: Starter, output: Path, catalog: Catalog) -> list[Finding]:
    """Return the errors for which plan, render and launch would reject the new spec."""
    findings = check(new.text, str(output), catalog).findings
    return [finding for finding in findings if finding.severity is Severity.ERROR]


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
